// Declares what a client needs to know to reach its namespace.

#ifndef TENSORKV_CLIENT_CLIENT_OPTIONS_H_
#define TENSORKV_CLIENT_CLIENT_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/compression/compression.h"
#include "client/credentials.h"
#include "client/transfer_options.h"

namespace tensorkv {

class ClientObserver;

struct ClientOptions {
  // "host:port", "unix:/path", or a gRPC target with a scheme. Or several
  // servers as one store: "cluster:host:port,host:port", some of those of a
  // cluster, which know the others (docs/cluster.md).
  std::string target = "127.0.0.1:7363";

  // Says whether connections are encrypted, and who the client is.
  Credentials credentials;

  // The namespace of every verb; empty means "default".
  std::string name_space;

  // Signs pushes and pulls as this worker of the namespace. Without a rank the
  // client is a reader and writer that is no member.
  // For namespaces whose workers do not join; others take Client::Join.
  std::optional<uint32_t> rank;

  // Bounds every call, connecting and retries included.
  absl::Duration timeout = absl::Seconds(30);

  // The longest message that is sent or taken, encoded. The default is the
  // server's own. It does not bound the tensors of a call.
  size_t max_message_bytes = size_t{64} << 20;

  // Says when tensors go as streams, in which parts, over how many connections.
  TransferOptions transfer;

  // Says how pushed tensors are encoded; by default not at all.
  CompressionOptions compression;

  // Is told of the calls where set.
  std::shared_ptr<ClientObserver> observer;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLIENT_OPTIONS_H_
