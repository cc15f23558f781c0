// Holds what a server of a cluster is told at its start.

#ifndef TENSORKV_SERVICE_CLUSTER_CLUSTER_OPTIONS_H_
#define TENSORKV_SERVICE_CLUSTER_CLUSTER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace tensorkv {

struct ClusterOptions {
  // "host:port" of each etcd server; the next is asked where one does not
  // answer.
  std::vector<std::string> etcd;
  // True: etcd is asked over TLS. The others of these are for TLS alone.
  bool etcd_tls = false;
  // Name PEM files: the authorities that may sign the certificates of etcd
  // (empty: those of the system), and a certificate that is shown to etcd, with
  // its key, both or none.
  std::string etcd_tls_ca;
  std::string etcd_tls_cert;
  std::string etcd_tls_key;
  // The user of etcd that the server is, and the file of its password; both or
  // none.
  std::string etcd_user;
  std::string etcd_password_file;

  // Names the cluster: servers with the same name here are one store. Without
  // '/'.
  std::string cluster = "default";

  // Unique in the cluster; a server that is started anew with the same name
  // has the same keys. In UTF-8, without '/'.
  std::string server_name;

  // Where clients reach the server; empty: where it listens.
  std::string address;

  // So many servers make the first placement, once they are all there.
  uint32_t size = 1;

  // The first placement has so many partitions, whichever of its servers makes
  // it; 0: as many as spread keys evenly over these.
  uint32_t num_partitions = 0;
  // In the first placement tensors of more bytes are in slices; 0: none are.
  uint64_t split_bytes = 0;

  // The server's capacity in relation to that of the others: it gets partitions
  // in proportion.
  double weight = 1;

  // Says how long after its end a server counts as live; whole seconds, 2 s to
  // 10 min.
  absl::Duration lease = absl::Seconds(10);

  // A directory that all servers can read, in which each server's checkpoints
  // are in a directory of its name; empty: no other server sees them.
  std::string checkpoints;
  // Says how long a server is not live before it counts as lost, and others
  // take over its keys; 0: only ResizeCluster says that a server is lost.
  absl::Duration lost_after;

  // Name files for TLS between servers: the authorities that may sign their
  // certificates (PEM), and a token that proves an admin, if their certificates
  // do not.
  std::string tls_ca;
  std::string token_file;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CLUSTER_CLUSTER_OPTIONS_H_
