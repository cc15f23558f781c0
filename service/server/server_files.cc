#include "service/server/server_files.h"

#include <functional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

// Returns the options of files that are there: "tls_cert, tls_key".
std::string NamesOf(const std::vector<WatchedFile>& files) {
  std::vector<std::string> names;
  for (const WatchedFile& file : files) {
    if (!file.path.empty()) names.push_back(file.option);
  }
  return absl::StrJoin(names, ", ");
}

// Other servers take TLS if this one does.
FileCredentials::Options PeerCredentialsOf(const ServerOptions& options) {
  if (!options.tls.is_on() || !options.cluster) return {};
  return {.files = {{"tls_cert", options.tls.cert},
                    {"tls_key", options.tls.key},
                    {"cluster_tls_ca", options.cluster->tls_ca},
                    {"cluster_token_file", options.cluster->token_file}}};
}

FileCredentials::Options EtcdCredentialsOf(const ServerOptions& options) {
  if (!options.cluster || !options.cluster->etcd_tls) return {};
  const ClusterOptions& cluster = *options.cluster;
  return {.files = {{"etcd_tls_cert", cluster.etcd_tls_cert},
                    {"etcd_tls_key", cluster.etcd_tls_key},
                    {"etcd_tls_ca", cluster.etcd_tls_ca},
                    {"etcd_password_file", cluster.etcd_password_file}},
          .secret = FileCredentials::Secret::kPassword};
}

}  // namespace

absl::Status CheckChannelFiles(const ServerOptions& options) {
  RETURN_IF_ERROR(FileCredentials(PeerCredentialsOf(options)).Read());
  return FileCredentials(EtcdCredentialsOf(options)).Read();
}

absl::StatusOr<std::unique_ptr<ServerFiles>> ServerFiles::Create(
    const ServerOptions& options, Log log) {
  std::unique_ptr<ServerFiles> files(new ServerFiles(options, std::move(log)));
  if (options.tls.is_on()) {
    ASSIGN_OR_RETURN(files->tls_files_,
                     files->Watch(ServerCertificates::FilesOf(options.tls),
                                  std::bind_front(&ServerCertificates::Load,
                                                  files->certificates_.get())));
  }
  ASSIGN_OR_RETURN(files->peer_files_,
                   files->Watch(files->peers_.credentials()));
  ASSIGN_OR_RETURN(files->etcd_files_,
                   files->Watch(files->etcd_.credentials()));
  files->credentials_ =
      MakeServerCredentials(options.tls, files->certificates_);
  return files;
}

ServerFiles::ServerFiles(const ServerOptions& options, Log log)
    : options_(options),
      log_(std::move(log)),
      certificates_(std::make_shared<ServerCertificates>()),
      peers_(PeerCredentialsOf(options)),
      etcd_(EtcdCredentialsOf(options)) {}

absl::StatusOr<std::unique_ptr<WatchedFiles>> ServerFiles::Watch(
    std::vector<WatchedFile> files, WatchedFiles::Apply apply) {
  const std::string names = NamesOf(files);
  if (names.empty()) {
    ASSIGN_OR_RETURN(const std::vector<FileText> texts, ReadFiles(files));
    RETURN_IF_ERROR(apply(texts));
    return nullptr;
  }
  return WatchedFiles::Create(
      {.files = std::move(files),
       .apply = std::move(apply),
       .period = options_.watch_period,
       .changed = [this, names](
                      const absl::Status& status) { Report(names, status); }},
      &alarms_);
}

absl::StatusOr<std::unique_ptr<WatchedFiles>> ServerFiles::Watch(
    FileCredentials& credentials) {
  return Watch(credentials.files(),
               std::bind_front(&FileCredentials::Load, &credentials));
}

void ServerFiles::Report(const std::string& names, const absl::Status& status) {
  {
    MutexLock lock(&mutex_);
    if (!status.ok() && status == told_) return;
    told_ = status;
    if (!status.ok()) ++num_refused_;
  }
  log_(status.ok() ? absl::StrCat("files: ", names, " count as they are now")
                   : absl::StrCat("files: ", status.message(),
                                  "; what was there before stays"));
}

absl::Status ServerFiles::WatchAccess(AccessControl* access) {
  const std::vector<WatchedFile> files = access->files();
  // Without them everybody may do everything.
  if (NamesOf(files).empty()) return access->Reload();
  ASSIGN_OR_RETURN(access_files_,
                   Watch(files, std::bind_front(&AccessControl::Load, access)));
  return absl::OkStatus();
}

std::vector<WatchedFiles*> ServerFiles::all() const {
  std::vector<WatchedFiles*> watched = {tls_files_.get(), peer_files_.get(),
                                        etcd_files_.get(), access_files_.get()};
  std::erase(watched, nullptr);
  return watched;
}

void ServerFiles::Stop() {
  for (WatchedFiles* const each : all()) each->Stop();
}

absl::Status ServerFiles::status() const {
  absl::Status status;
  for (const WatchedFiles* const each : all()) status.Update(each->status());
  return status;
}

// Errors of files begin with the option.
std::string ServerFiles::wrong_options() const {
  const absl::Status wrong = status();
  if (wrong.ok()) return "";
  const absl::string_view message = wrong.message();
  const absl::string_view options = message.substr(0, message.find(':'));
  return absl::StrContains(options, '/') ? "some" : std::string(options);
}

WatchedFiles::Counts ServerFiles::counts() const {
  WatchedFiles::Counts counts;
  for (const WatchedFiles* const each : all()) {
    counts.applied += each->counts().applied;
  }
  MutexLock lock(&mutex_);
  counts.refused = num_refused_;
  return counts;
}

std::vector<Reading> ServerFiles::FileReadings() const {
  using prometheus::MetricType;
  return {
      {"tensorkv_files_wrong",
       "1 while files of TLS, of access or of the cluster are wrong, and what "
       "was there before counts.",
       MetricType::Gauge, [this] { return status().ok() ? 0 : 1; }},
      {"tensorkv_file_changes_total",
       "Changes of such files that were taken over.", MetricType::Counter,
       [this] { return counts().applied; }},
      {"tensorkv_file_changes_refused_total",
       "Changes of such files that were wrong.", MetricType::Counter,
       [this] { return counts().refused; }},
      {"tensorkv_certificate_expiry_timestamp_seconds",
       "When the server's certificate counts no more; 0 without TLS.",
       MetricType::Gauge,
       [this] { return absl::ToUnixSeconds(certificates_->expiry()); }},
  };
}

}  // namespace tensorkv
