// Makes credentials of files that may change.

#ifndef TENSORKV_CHANNELS_FILE_CREDENTIALS_H_
#define TENSORKV_CHANNELS_FILE_CREDENTIALS_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "base/mutex.h"
#include "base/watched_files.h"
#include "grpcpp/security/credentials.h"

namespace tensorkv {

// The credentials of whoever opens channels, as the files say that were right
// last. Thread-safe.
class FileCredentials {
 public:
  enum class Transport { kTls, kUnixSocket };
  // A token goes with every call. A password does not: whoever has these
  // credentials asks for it.
  enum class Secret { kToken, kPassword };

  struct Options {
    // The certificate that is shown to the other side, its key, the authorities
    // that may sign the other's, and a secret, in this order. One without a
    // path is not used; without authorities, those of the system count. Where
    // there are none at all, channels are in plain text.
    std::vector<WatchedFile> files;
    Secret secret = Secret::kToken;
    Transport transport = Transport::kTls;
  };

  explicit FileCredentials(Options options);

  // Returns the files whose texts Load takes, in its order; none in plain text.
  const std::vector<WatchedFile>& files() const { return options_.files; }
  // Checks the texts of `files()`, and has them count from now on. A
  // certificate that has expired, or is not valid yet, is refused, unless it is
  // the first. Errors: InvalidArgument, naming the option; then the texts that
  // were loaded last stay.
  absl::Status Load(const std::vector<FileText>& texts);
  // Reads the files once, and loads what they say; blocks. Errors: those of
  // ReadFiles and of Load.
  absl::Status Read();

  // Returns the credentials that were loaded last, the same object until others
  // are; null before the first, unless in plain text.
  std::shared_ptr<grpc::ChannelCredentials> current() const;
  // Returns the secret that was loaded last, without white space around it;
  // empty if there is none.
  std::string secret() const;

 private:
  absl::Status CheckSecret(const FileText& file,
                           const std::string& secret) const;
  std::shared_ptr<grpc::ChannelCredentials> MadeOf(
      const std::vector<FileText>& texts, const std::string& secret) const;

  const Options options_;
  mutable Mutex mutex_;
  std::shared_ptr<grpc::ChannelCredentials> current_ ABSL_GUARDED_BY(mutex_);
  std::string secret_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tensorkv

#endif  // TENSORKV_CHANNELS_FILE_CREDENTIALS_H_
