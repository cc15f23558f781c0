#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/file_descriptor.h"
#include "base/status_macros.h"
#include "bench/data_path/loads.h"
#include "bench/data_path/rows.h"
#include "bench/data_path/workload.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

constexpr int64_t kCheckpointBytes = 256 * kMiB;  // of all keys
constexpr int64_t kKeysPerPush = 1024;

struct CheckpointShape {
  const char* name;
  const char* rule;
  int64_t key_bytes = 0;
  // How many of a hundred keys change before each checkpoint but the first;
  // with fewer than all, checkpoints share files with the one before.
  int changes = 100;
};

constexpr CheckpointShape kShapes[] = {
    {"assign/8MiB", "assign", 8 * kMiB},
    {"assign/4KiB", "assign", 4 * kKiB},
    {"adam/8MiB", "adam", 8 * kMiB},
    {"changed-1%/assign/512KiB", "assign", kMiB / 2, 1},
    {"changed-1%/adam/512KiB", "adam", kMiB / 2, 1}};

absl::Status FileError(const std::string& path) {
  return absl::UnavailableError("cannot write or read " + path);
}

absl::Status WritePlainly(const std::string& path, const Tensor& piece,
                          int64_t bytes) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  while (bytes > 0) {
    const ssize_t written =
        write(file.get(), piece.data(), std::min(bytes, kMiB));
    if (written <= 0) return FileError(path);
    bytes -= written;
  }
  return fsync(file.get()) == 0 ? absl::OkStatus() : FileError(path);
}

absl::Status ReadPlainly(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string piece(kMiB, '\0');
  ssize_t bytes = 0;
  do {
    bytes = read(file.get(), piece.data(), piece.size());
  } while (bytes > 0);
  return bytes == 0 ? absl::OkStatus() : FileError(path);
}

// Has the next reads below that folder come from the disk.
void ForgetBytesBelow(const std::string& folder) {
  for (const auto& each :
       std::filesystem::recursive_directory_iterator(folder)) {
    if (!each.is_regular_file()) continue;
    const FileDescriptor file(open(each.path().c_str(), O_RDONLY | O_CLOEXEC));
    posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

// A server with keys of a rule that have been pushed to, its checkpoints, and a
// plain file of as many bytes.
class Checkpointed {
 public:
  static absl::StatusOr<std::shared_ptr<Checkpointed>> Create(
      Servers* servers, const CheckpointShape& shape) {
    std::shared_ptr<Checkpointed> made(new Checkpointed(servers, shape));
    RETURN_IF_ERROR(made->Fill());
    return made;
  }
  ~Checkpointed() {
    servers_->Stop(server_);
    std::error_code ignored;  // The folder goes with that of the servers.
    std::filesystem::remove_all(folder_, ignored);
  }

  absl::Status Save() {
    RETURN_IF_ERROR(Push(shape_.changes));
    const std::string former = absl::StrCat(number_);
    RETURN_IF_ERROR(Time([&]() -> absl::Status {
      ASSIGN_OR_RETURN(const CheckpointStatus saved,
                       client_->SaveCheckpoint(absl::StrCat(++number_)));
      bytes_ = static_cast<int64_t>(saved.bytes());
      return absl::OkStatus();
    }));
    return number_ == 1 ? absl::OkStatus() : client_->DeleteCheckpoint(former);
  }
  absl::Status Write() {
    return Time([&] { return WritePlainly(plain_, value_, bytes_); });
  }
  absl::Status Restore() {
    servers_->Stop(server_);
    ForgetBytesBelow(folder_);
    return Time([&] { return servers_->Get(server_).status(); });
  }
  absl::Status Read() {
    ForgetBytesBelow(folder_);
    return Time([&] { return ReadPlainly(plain_); });
  }

  using Call = absl::Status (Checkpointed::*)();
  static Load LoadOf(const std::shared_ptr<Checkpointed>& self, Call call) {
    return {.call = [=] { return ((*self).*call)(); },
            .bytes = self->bytes_,
            .took = [=] { return self->took_; }};
  }

 private:
  Checkpointed(Servers* servers, const CheckpointShape& shape)
      : servers_(servers),
        shape_(shape),
        folder_(absl::StrCat(servers->directory(), "/", shape.name)),
        plain_(folder_ + "/plain"),
        server_(absl::StrCat(
            "tensorkv --checkpoint_dir=", folder_, "/checkpoints",
            shape.changes == 100 ? "" : " --checkpoint_full_every=1000")) {}

  absl::Status Fill() {
    std::filesystem::create_directories(folder_ + "/checkpoints");
    ASSIGN_OR_RETURN(client_,
                     Connect(servers_, server_, {.name_space = "checkpoint"},
                             {.rule = {.name = shape_.rule}}));
    ASSIGN_OR_RETURN(value_, MakeValues(std::max(shape_.key_bytes, kMiB)));
    ASSIGN_OR_RETURN(const Tensor tensor, MakeValues(shape_.key_bytes));
    std::vector<InitEntry> inits;
    for (int64_t i = 0; i < kCheckpointBytes / shape_.key_bytes; ++i) {
      const std::string key = KeyText(0, i);
      inits.push_back({.key = key, .tensor = tensor});
      pushes_.push_back({.key = key, .tensor = tensor});
    }
    RETURN_IF_ERROR(client_->Init(std::move(inits)));
    RETURN_IF_ERROR(Push(100));
    RETURN_IF_ERROR(Save());
    return Write();
  }

  absl::Status Push(int of_a_hundred) {
    std::vector<PushEntry> some;
    for (size_t i = 0; i < pushes_.size(); ++i) {
      if (static_cast<int>(i % 100) < of_a_hundred) some.push_back(pushes_[i]);
      if (some.size() < kKeysPerPush && i + 1 < pushes_.size()) continue;
      RETURN_IF_ERROR(client_->Push(std::exchange(some, {})).status());
    }
    return absl::OkStatus();
  }

  // What earlier calls have left to write does not count.
  absl::Status Time(const std::function<absl::Status()>& call) {
    sync();
    const absl::Duration start = SteadyTime();
    absl::Status status = call();
    took_ = SteadyTime() - start;
    return status;
  }

  Servers* const servers_;
  const CheckpointShape shape_;
  const std::string folder_;
  const std::string plain_;
  const std::string server_;
  std::shared_ptr<Client> client_;
  Tensor value_;
  std::vector<PushEntry> pushes_;
  int number_ = 0;
  int64_t bytes_ = 0;
  absl::Duration took_;
};

}  // namespace

std::vector<Row> CheckpointRows(Servers* servers) {
  const auto last = std::make_shared<std::weak_ptr<Checkpointed>>();
  std::vector<Row> rows;
  for (const CheckpointShape& shape : kShapes) {
    const auto add = [&](const char* verb, Checkpointed::Call ours,
                         Checkpointed::Call plain) {
      const auto make = [=]() -> absl::StatusOr<Load> {
        ASSIGN_OR_RETURN(const auto made, Checkpointed::Create(servers, shape));
        *last = made;
        return Checkpointed::LoadOf(made, ours);
      };
      // The reference reads the files that our row has just made.
      const auto make_plain = [=]() -> absl::StatusOr<Load> {
        const std::shared_ptr<Checkpointed> made = last->lock();
        if (made == nullptr) return absl::NotFoundError("no checkpoint");
        return Checkpointed::LoadOf(made, plain);
      };
      rows.push_back(
          {.name = absl::StrCat("checkpoint/", verb, "/", shape.name),
           .make_load = make,
           .references = {{"plain_file", make_plain, 0.8}},
           .is_quick = false});
    };
    add("save", &Checkpointed::Save, &Checkpointed::Write);
    add("restore", &Checkpointed::Restore, &Checkpointed::Read);
  }
  return rows;
}

}  // namespace tensorkv::bench
