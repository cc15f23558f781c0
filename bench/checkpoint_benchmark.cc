// How fast checkpoints are written, and restored, beside what the disk takes
// and gives: one file of as many bytes, written one MiB after the other and
// synced, and read, in turns with the checkpoints.
//
//   bazel build //bench:checkpoint_benchmark
//   bazel-bin/bench/checkpoint_benchmark [DIRECTORY [MiB [PREFIX]]]
//
// DIRECTORY is on the disk to measure (default: .), MiB what the values take
// (default: 512), PREFIX how the names of the rows begin that are measured
// (default: all). Leaves nothing there.

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"
#include "base/alarms.h"
#include "base/answer.h"
#include "base/file_descriptor.h"
#include "bench/harness/clocks.h"
#include "bench/harness/statistics.h"
#include "kernels/cpu/cpu_backend.h"
#include "service/allocator_memory.h"
#include "service/checkpoint/checkpoints.h"
#include "service/store/memory_tensor_store.h"

namespace tensorkv::bench {
namespace {

constexpr int kNumTurns = 5;
constexpr uint64_t kMiB = 1 << 20;

void Check(bool is_ok, const std::string& what) {
  if (is_ok) return;
  std::fprintf(stderr, "checkpoint_benchmark: %s\n", what.c_str());
  std::exit(1);
}

template <typename T>
T Checked(absl::StatusOr<T> result) {
  Check(result.ok(), std::string(result.status().message()));
  return *std::move(result);
}

// So that no disk makes less of them.
std::string RandomBytes(uint64_t size) {
  std::mt19937_64 random(/*seed=*/1);
  std::string bytes(size, '\0');
  for (uint64_t i = 0; i + sizeof(uint64_t) <= size; i += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(&bytes[i], &word, sizeof(word));
  }
  return bytes;
}

// What earlier turns have left to write does not count.
template <typename Function>
double SecondsOf(Function function) {
  sync();
  const absl::Duration start = SteadyTime();
  function();
  return absl::ToDoubleSeconds(SteadyTime() - start);
}

void WritePlainly(const std::string& path, const std::string& piece,
                  uint64_t bytes) {
  const FileDescriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644));
  Check(file.is_open(), absl::StrCat("cannot write ", path));
  while (bytes > 0) {
    const ssize_t written = write(file.get(), piece.data(),
                                  std::min<uint64_t>(bytes, piece.size()));
    Check(written > 0, absl::StrCat("cannot write ", path));
    bytes -= written;
  }
  Check(fsync(file.get()) == 0, absl::StrCat("cannot sync ", path));
}

// Has the next read come from the disk.
void ForgetBytesOf(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Check(file.is_open(), absl::StrCat("cannot read ", path));
  posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
}

void ReadPlainly(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  Check(file.is_open(), absl::StrCat("cannot read ", path));
  std::string piece(kMiB, '\0');
  ssize_t bytes;
  do {
    bytes = read(file.get(), piece.data(), piece.size());
    Check(bytes >= 0, absl::StrCat("cannot read ", path));
  } while (bytes > 0);
}

struct Row {
  std::string name;
  std::string rule;
  uint64_t key_bytes = 0;
  // How many of a hundred keys change before each checkpoint but the first.
  int changes = 100;
};

// A store with keys of a rule that have been pushed to, and its checkpoints.
class FilledStore {
 public:
  FilledStore(const Row& row, uint64_t bytes, const std::string& directory)
      : row_(row), num_keys_(static_cast<int>(bytes / row.key_bytes)) {
    checkpoints_ = Checked(Checkpoints::Create(
        {.directory = directory, .full_every = row.changes == 100 ? 1u : 1000u},
        &store_));
    SetRuleRequest rule;
    rule.rule = Checked(ParseRuleSpec(row.rule));
    Check(store_.SetRule(rule).ok(), "no such rule");
    value_ = Checked(Tensor::Allocate(
        DType::kF32, {static_cast<int64_t>(row.key_bytes / sizeof(float))}));
    std::mt19937 random(/*seed=*/1);
    for (float& element : value_.mutable_elements<float>()) {
      element = static_cast<float>(random()) / UINT32_MAX;
    }
    for (int i = 0; i < num_keys_; ++i) Init(i);
    for (int i = 0; i < num_keys_; ++i) Push(i);
  }

  // Changes what is to change.
  void Change() {
    for (int i = 0; i < num_keys_; ++i) {
      if (i % 100 < row_.changes) Push(i);
    }
  }
  CheckpointStatus Save(const std::string& name) {
    return Checked(checkpoints_->SaveCheckpoint({name}, {}));
  }
  void Delete(const std::string& name) {
    Check(checkpoints_->DeleteCheckpoint({name}, {}).ok(), "cannot delete");
  }

 private:
  void Init(int key) {
    InitRequest request;
    request.entries.push_back({absl::StrCat("key-", key), value_});
    const Answer<absl::StatusOr<InitReply>> answer;
    store_.Init(std::move(request), {},
                [answer](absl::StatusOr<InitReply> reply) {
                  answer.Set(std::move(reply));
                });
    Checked(answer.Wait());
  }
  void Push(int key) {
    PushRequest request;
    request.entries.push_back({absl::StrCat("key-", key), false, value_});
    const Answer<absl::StatusOr<PushReply>> answer;
    store_.Push(std::move(request), {},
                [answer](absl::StatusOr<PushReply> reply) {
                  answer.Set(std::move(reply));
                });
    Checked(answer.Wait());
  }

  const Row row_;
  const int num_keys_;
  Tensor value_;
  CpuBackend backend_{2};
  SteadyAlarms alarms_;
  MemoryTensorStore store_{
      {.budget_bytes = uint64_t{1} << 40}, &backend_, &alarms_};
  std::unique_ptr<Checkpoints> checkpoints_;
};

// What a server has and does at its start.
class RestoredStore {
 public:
  explicit RestoredStore(const std::string& directory)
      : checkpoints_(
            Checked(Checkpoints::Create({.directory = directory}, &store_))) {
    Check(Checked(checkpoints_->RestoreLast()).has_value(),
          "nothing to restore");
  }

 private:
  CpuBackend backend_{2};
  SteadyAlarms alarms_;
  MemoryTensorStore store_{
      {.budget_bytes = uint64_t{1} << 40}, &backend_, &alarms_};
  const std::unique_ptr<Checkpoints> checkpoints_;
};

constexpr absl::string_view kRestore = "--restore";

// The part of a process of its own: a server that starts has no memory yet.
int Restore(const std::string& directory) {
  const GrowthInHugePages growth;      // as the server has it
  std::optional<RestoredStore> store;  // its end does not count
  std::printf("%.9f\n", SecondsOf([&] { store.emplace(directory); }));
  return 0;
}

// One word for a shell.
std::string Quoted(const std::string& word) {
  return absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

double SecondsToRestore(const std::string& directory) {
  const std::string command = absl::StrCat(
      Quoted(std::filesystem::read_symlink("/proc/self/exe").string()), " ",
      kRestore, " ", Quoted(directory));
  FILE* const restore = popen(command.c_str(), "r");
  double seconds = 0;
  Check(restore != nullptr && std::fscanf(restore, "%lf", &seconds) == 1,
        "cannot restore");
  Check(pclose(restore) == 0, "restoring ended with an error");
  return seconds;
}

// How many times as fast as a plain file of as many bytes is read.
double MeasureRestore(const std::string& directory, const std::string& piece,
                      uint64_t bytes) {
  const std::string checkpoints = directory + "/checkpoints";
  const std::string plain = directory + "/plain";
  WritePlainly(plain, piece, bytes);
  std::vector<double> ratios;
  for (int turn = 0; turn < kNumTurns; ++turn) {
    for (const auto& each :
         std::filesystem::recursive_directory_iterator(checkpoints)) {
      if (each.is_regular_file()) ForgetBytesOf(each.path());
    }
    ForgetBytesOf(plain);
    const double seconds = SecondsToRestore(checkpoints);
    const double plain_seconds = SecondsOf([&] { ReadPlainly(plain); });
    ratios.push_back(plain_seconds / seconds);
  }
  return Median(ratios);
}

void Measure(const Row& row, uint64_t bytes, const std::string& directory,
             const std::string& piece) {
  std::filesystem::create_directory(directory);
  auto store =
      std::make_unique<FilledStore>(row, bytes, directory + "/checkpoints");
  const std::string plain = directory + "/plain";
  CheckpointStatus saved = store->Save("0");
  std::vector<double> rates;
  std::vector<double> ratios;
  for (int turn = 1; turn <= kNumTurns; ++turn) {
    store->Change();
    const std::string former = absl::StrCat(turn - 1);
    const double seconds =
        SecondsOf([&] { saved = store->Save(absl::StrCat(turn)); });
    store->Delete(former);
    const double plain_seconds =
        SecondsOf([&] { WritePlainly(plain, piece, saved.bytes); });
    std::filesystem::remove(plain);
    rates.push_back(saved.bytes / seconds / 1e9);
    ratios.push_back(plain_seconds / seconds);
  }
  store.reset();  // a directory is used by one at a time
  std::printf("%-24s %8.1f %8.1f %8.2f %8.2f %8.2f\n", row.name.c_str(),
              saved.bytes / 1e6, saved.written_bytes / 1e6, Median(rates),
              Median(ratios), MeasureRestore(directory, piece, saved.bytes));
  std::fflush(stdout);
}

int Main(int argc, char** argv) {
  if (argc == 3 && argv[1] == kRestore) return Restore(argv[2]);
  uint64_t mib = 512;
  Check(argc < 3 || (absl::SimpleAtoi(argv[2], &mib) && mib > 0), "MiB: what?");
  const std::string directory = absl::StrCat(
      argc > 1 ? argv[1] : ".", "/checkpoint_benchmark-", getpid());
  const std::string piece = RandomBytes(kMiB);
  const Row rows[] = {{"values/8MiB", "assign", 8 * kMiB},
                      {"values/4KiB", "assign", 4 << 10},
                      {"adam/8MiB", "adam", 8 * kMiB},
                      {"changed-1%/512KiB", "assign", kMiB / 2, 1},
                      {"changed-1%/adam/512KiB", "adam", kMiB / 2, 1}};
  std::printf("%-24s %8s %8s %8s %8s %8s\n", "checkpoint of", "MB", "written",
              "GB/s", "of plain", "restored");
  for (const Row& row : rows) {
    if (argc > 3 && !absl::StartsWith(row.name, argv[3])) continue;
    Measure(row, mib * kMiB, directory, piece);
    std::filesystem::remove_all(directory);
  }
  return 0;
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) { return tensorkv::bench::Main(argc, argv); }
