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
#include "channels/channels.h"
#include "grpcpp/grpcpp.h"
#include "service/metrics/readings.h"
#include "service/security/access_control.h"
#include "service/security/server_tls.h"
#include "service/server/server_options.h"

namespace tensorkv {

// Checks the files by which the server connects to others and to etcd; blocks.
// Errors: InvalidArgument, naming the option.
absl::Status CheckChannelFiles(const ServerOptions& options);

// Watches four sets of files: those of a server's TLS, of its access, of its
// connections to others, and of those to etcd. Of each set, what was right last
// counts; what is wrong is logged, counted, and told by `status`. Thread-safe,
// but for WatchAccess and Stop.
class ServerFiles {
 public:
  using Log = std::function<void(const std::string& line)>;

  // Reads the files of TLS and of connections, and begins to watch them. `log`
  // must not block. Errors: InvalidArgument, naming the option ·
  // DeadlineExceeded: the file system does not answer.
  static absl::StatusOr<std::unique_ptr<ServerFiles>> Create(
      const ServerOptions& options, Log log);
  ~ServerFiles() { Stop(); }

  // Reads the files of `access`, has it go by them, and begins to watch them.
  // `access` must live until Stop. REQUIRES: called once. Errors: those of
  // Create.
  absl::Status WatchAccess(AccessControl* access);
  // Reads the files of access now, without waiting for the next period; blocks.
  // REQUIRES: WatchAccess has found files. Errors: those of Create.
  absl::Status ReloadAccess() { return access_files_->Reload(); }

  // Watches no more. What was loaded last stays.
  void Stop();

  // Returns the credentials of the server's port.
  const std::shared_ptr<grpc::ServerCredentials>& credentials() const {
    return credentials_;
  }
  // Returns the certificates that the credentials follow.
  const ServerCertificates& certificates() const { return *certificates_; }
  // Returns the channel to the server of the cluster at `address`.
  std::shared_ptr<grpc::Channel> ChannelTo(const std::string& address) {
    return peers_.ChannelTo(address);
  }
  // Returns the channels to etcd.
  Channels* etcd() { return &etcd_; }

  // Returns what is wrong with the files as they are; OK if nothing is.
  absl::Status status() const;
  // Returns the names of options whose files are wrong ("tls_cert, tls_key"),
  // or "some", without the paths that `status` has; empty if none are wrong.
  std::string wrong_options() const;
  // Returns the metrics of these files, which this object must outlive.
  std::vector<Reading> FileReadings() const;

 private:
  ServerFiles(const ServerOptions& options, Log log);

  // Reads the files and begins to watch them. Where all paths are empty,
  // applies that, and returns null. Errors: those of Create.
  absl::StatusOr<std::unique_ptr<WatchedFiles>> Watch(
      std::vector<WatchedFile> files, WatchedFiles::Apply apply);
  absl::StatusOr<std::unique_ptr<WatchedFiles>> Watch(
      FileCredentials& credentials);
  // Logs what WatchedFiles has found. What is wrong with files that are watched
  // for two purposes is told once.
  void Report(const std::string& names, const absl::Status& status);
  // Returns those that are watched.
  std::vector<WatchedFiles*> all() const;
  WatchedFiles::Counts counts() const;

  const ServerOptions options_;
  const Log log_;
  const std::shared_ptr<ServerCertificates> certificates_;
  Channels peers_;
  Channels etcd_;
  std::shared_ptr<grpc::ServerCredentials> credentials_;
  // Runs alarms of its own: a file system may stand still.
  SteadyAlarms alarms_;
  mutable Mutex mutex_;
  // The last that was wrong, until files are right again.
  absl::Status told_ ABSL_GUARDED_BY(mutex_);
  // Counts how often files were wrong, those of two purposes counted once.
  uint64_t num_refused_ ABSL_GUARDED_BY(mutex_) = 0;
  // Null where there are no files.
  std::unique_ptr<WatchedFiles> tls_files_;
  std::unique_ptr<WatchedFiles> peer_files_;
  std::unique_ptr<WatchedFiles> etcd_files_;
  std::unique_ptr<WatchedFiles> access_files_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_SERVER_FILES_H_
