#include "service/checkpoint/snapshot_stream.h"

#include <cstdint>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/manifest.pb.h"
#include "tests/service/checkpoint/saved_store.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace snapshot_stream_test {

using testing::BytesOf;
using testing::CheckpointsTest;
using testing::Filled;
using testing::PushOf;
using testing::SavedStore;
using testing::StatusIs;

// What a store's snapshot is as a stream.
std::string StreamOf(SavedStore& saved) {
  std::string stream;
  SnapshotStreamWriter writer([&](std::string piece) {
    EXPECT_LE(piece.size(), SnapshotStreamWriter::kPieceBytes);
    stream += piece;
    return absl::OkStatus();
  });
  EXPECT_OK(saved.store().TakeSnapshot({}, writer));
  EXPECT_OK(writer.Finish());
  return stream;
}

// Restores a stream that comes in pieces of that size.
absl::Status Restore(absl::string_view stream, size_t piece_bytes,
                     SavedStore& to) {
  const auto restoration = to.store().StartRestoration(OnExisting::kFail);
  SnapshotStreamReader reader(restoration.get());
  for (; !stream.empty(); stream.remove_prefix(piece_bytes)) {
    piece_bytes = std::min(piece_bytes, stream.size());
    absl::Status status = reader.Read(stream.substr(0, piece_bytes));
    if (!status.ok()) return status;
  }
  absl::Status status = reader.Finish();
  return status.ok() ? restoration->Commit() : status;
}

// Has no memory for anything.
class FullRestoration final : public Restoration {
 public:
  absl::Status Begin(const NamespaceSnapshot&) override {
    return absl::OkStatus();
  }
  absl::StatusOr<Tensor> Allocate(DType, Shape) override {
    return absl::ResourceExhaustedError("no room");
  }
  absl::Status Add(std::vector<KeySnapshot>) override {
    return absl::InternalError("a key has come");
  }
  absl::Status Commit() override { return absl::OkStatus(); }
};

std::string LittleEndian(uint64_t size) {
  return {reinterpret_cast<const char*>(&size), sizeof(size)};
}

// How many bytes come before each record's tensors: two sizes and a manifest.
constexpr size_t kSizes = 2 * sizeof(uint64_t);

uint64_t SizeAt(const std::string& stream, size_t place) {
  uint64_t size = 0;
  std::memcpy(&size, stream.data() + place, sizeof(size));
  return size;
}

// A stream of one key whose record names its value twice.
std::string WithTwoValues(const std::string& stream) {
  const size_t record = kSizes + SizeAt(stream, 0);
  const size_t manifest_bytes = SizeAt(stream, record);
  const size_t value_bytes = SizeAt(stream, record + sizeof(uint64_t));
  const std::string value = stream.substr(record + kSizes + manifest_bytes);
  v1::NamespaceManifest manifest;
  EXPECT_TRUE(
      manifest.ParseFromString(stream.substr(record + kSizes, manifest_bytes)));
  v1::SavedKey& key = *manifest.mutable_keys(0);
  v1::SavedTensor second = key.tensors(0);
  second.set_offset(value_bytes);
  *key.add_tensors() = second;
  const std::string serialized = manifest.SerializeAsString();
  return absl::StrCat(stream.substr(0, record), LittleEndian(serialized.size()),
                      LittleEndian(2 * value_bytes), serialized, value, value);
}

using SnapshotStreamTest = CheckpointsTest;

TEST_F(SnapshotStreamTest, StoreThatWasSentIsTheSame) {
  SavedStore& saved = Restart();
  NamespaceConfig config;
  config.rule = *ParseRuleSpec("adam(learning_rate=0.1)");
  CreateNamespace(saved, "n", config);
  for (int i = 0; i < 5; ++i) {
    const std::string key = absl::StrCat("k", i);
    // One of them is larger than a piece.
    const Shape shape = i == 3 ? Shape{700, 1000} : Shape{3, i + 1};
    ASSERT_OK(saved.Init("n", key, Filled(DType::kF32, i, shape)));
    ASSERT_OK(saved.Push(PushOf("n", key, Filled(DType::kF32, 1, shape))));
  }
  const std::string stream = StreamOf(saved);

  for (const size_t piece_bytes : {size_t{1000}, stream.size()}) {
    SavedStore other(absl::StrCat(directory_, "/", piece_bytes));
    ASSERT_OK(Restore(stream, piece_bytes, other));
    for (int i = 0; i < 5; ++i) {
      const std::string key = absl::StrCat("k", i);
      const Value value = other.Pull("n", key);
      EXPECT_EQ(BytesOf(value), BytesOf(saved.Pull("n", key)));
      EXPECT_EQ(value.version, saved.Pull("n", key).version);
      EXPECT_EQ(BytesOf(other.GetState("n", key, "mean")),
                BytesOf(saved.GetState("n", key, "mean")));
    }
  }
}

TEST_F(SnapshotStreamTest, DamageIsFound) {
  SavedStore& saved = Restart();
  ASSERT_OK(saved.Init("", "k", Filled(DType::kF32, 7)));
  const std::string stream = StreamOf(saved);
  std::string flipped = stream;
  flipped.back() ^= 1;
  std::string huge = stream;
  huge[7] = '\x7f';

  for (const std::string& damaged :
       {flipped, huge, stream.substr(0, stream.size() - 1), stream.substr(0, 9),
        WithTwoValues(stream)}) {
    SavedStore other(absl::StrCat(directory_, "/other"));
    EXPECT_THAT(Restore(damaged, damaged.size(), other),
                StatusIs(absl::StatusCode::kDataLoss));
  }
}

// The memory that this process has, in pages.
size_t ResidentPages() {
  size_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident;
}

TEST_F(SnapshotStreamTest, ManifestTakesMemoryAsItComes) {
  SavedStore other(directory_);
  const auto to = other.store().StartRestoration(OnExisting::kFail);
  SnapshotStreamReader reader(to.get());
  constexpr size_t kPromisedBytes = 1 << 30;
  const size_t pages_before = ResidentPages();

  ASSERT_OK(reader.Read(
      absl::StrCat(LittleEndian(kPromisedBytes), LittleEndian(0), "x")));

  EXPECT_LT(ResidentPages(), pages_before + kPromisedBytes / 2 / 4096);
}

TEST_F(SnapshotStreamTest, KeyThatHasNoRoomIsRefusedBeforeItsTensorsCome) {
  SavedStore& saved = Restart();
  ASSERT_OK(saved.Init("", "k", Filled(DType::kF32, 1, {1000})));
  const std::string stream = StreamOf(saved);
  const size_t record = kSizes + SizeAt(stream, 0);
  const size_t tensors = record + kSizes + SizeAt(stream, record);
  ASSERT_EQ(stream.size() - tensors, 4000u);
  FullRestoration full;
  SnapshotStreamReader reader(&full);

  EXPECT_OK(reader.Read(stream.substr(0, tensors - 1)));
  EXPECT_THAT(reader.Read(stream.substr(tensors - 1, 1)),
              StatusIs(absl::StatusCode::kResourceExhausted, "no room"));
}

}  // namespace snapshot_stream_test
}  // namespace tensorkv
