// Reads the files that may change while a server runs.

#ifndef TENSORKV_SERVICE_SERVER_SERVER_FILES_H_
#define TENSORKV_SERVICE_SERVER_SERVER_FILES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "base/watched_files.h"
#include "grpcpp/grpcpp.h"
#include "service/metrics/readings.h"
#include "service/security/access_control.h"
#include "service/security/server_tls.h"
#include "service/server/peer_channels.h"
#include "service/server/server_options.h"

namespace tensorkv {

// Keeps an eye on the files of a server's TLS, of its access, and of its
// connections to others. Of each of these three, what was right last counts;
// what is wrong is logged, counted, and told by `status`. Thread-safe, but for
// WatchAccess and Stop.
class ServerFiles {
 public:
  using Log = std::function<void(const std::string& line)>;

  // Reads all but those of access. `log` must not block.
  // Errors: InvalidArgument, naming the option.
  static absl::StatusOr<std::unique_ptr<ServerFiles>> Create(
      const ServerOptions& options, Log log);
  ~ServerFiles() { Stop(); }

  // Has `access`, which outlives Stop, go by its files. REQUIRES: called once.
  // Errors: as of Create.
  absl::Status WatchAccess(AccessControl* access);
  // Looks at those of access at once. Errors: as of Create.
  absl::Status LookAtAccess() { return access_->Reload(); }

  // Looks no more.
  void Stop();

  // Returns the credentials of the server's port.
  const std::shared_ptr<grpc::ServerCredentials>& credentials() const {
    return credentials_;
  }
  // Returns the certificates that these are made of.
  const ServerCertificates& certificates() const { return *certificates_; }
  // To another server, as PeerChannels has it.
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
    return peers_.To(address);
  }

  // Returns what is wrong with the files as they are; OK if nothing is.
  absl::Status status() const;
  // Returns the options whose files are wrong, without the paths that `status`
  // has; empty if none are.
  std::string wrong_options() const;
  std::vector<Reading> FileReadings() const;

 private:
  ServerFiles(const ServerOptions& options, Log log);

  // Errors: as of Create.
  absl::StatusOr<std::unique_ptr<WatchedFiles>> Watch(
      std::vector<WatchedFile> files, WatchedFiles::Apply apply);
  // Logs what WatchedFiles has found. What is wrong with files that are watched
  // for two purposes is told once.
  void Report(const std::string& names, const absl::Status& status);
  WatchedFiles::Counts counts() const;

  const ServerOptions options_;
  const Log log_;
  const std::shared_ptr<ServerCertificates> certificates_;
  PeerChannels peers_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  // Runs alarms of its own: a file system may stand still.
  SteadyAlarms alarms_;
  mutable Mutex mutex_;
  // The last that was wrong, until files are right again.
  absl::Status told_ ABSL_GUARDED_BY(mutex_);
  // Counts how often files were wrong, those of two purposes counted once.
  uint64_t num_refused_ ABSL_GUARDED_BY(mutex_) = 0;
  // Null where there are no files.
  std::unique_ptr<WatchedFiles> tls_;
  std::unique_ptr<WatchedFiles> peer_;
  std::unique_ptr<WatchedFiles> access_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_SERVER_FILES_H_
