#include "kernels/cuda/update_table.h"

#include <sys/mman.h>

#include <cstring>
#include <numeric>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/host_update.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {
namespace {

// Runs a table as a device would, from a copy of its block.
void RunOnHost(const UpdateTable& table) {
  std::vector<uint64_t> block(table.size_bytes() / sizeof(uint64_t));
  std::vector<double> scratch(table.scratch_bytes() / sizeof(double));
  char* const bytes = reinterpret_cast<char*>(block.data());
  table.Write(bytes);
  for (const UpdateLaunch& launch :
       table.LaunchesAt(reinterpret_cast<uintptr_t>(bytes),
                        reinterpret_cast<char*>(scratch.data()))) {
    RunUpdateOnHost(launch);
  }
}

void RunOnHost(const TensorUpdate& update) {
  UpdateTable table;
  table.Add({&update, 1});
  RunOnHost(table);
}

// Addresses of which only those that are touched take memory.
class SparseMemory {
 public:
  explicit SparseMemory(size_t size_bytes)
      : size_bytes_(size_bytes),
        data_(mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) {}
  ~SparseMemory() { munmap(data_, size_bytes_); }
  SparseMemory(const SparseMemory&) = delete;

  bool is_there() const { return data_ != MAP_FAILED; }
  template <typename T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  const size_t size_bytes_;
  void* const data_;
};

// Runs the chunk of the only launch that has an element.
void RunChunkOf(const UpdateTable& table, uint64_t element) {
  std::vector<uint64_t> block(table.size_bytes() / sizeof(uint64_t));
  char* const bytes = reinterpret_cast<char*>(block.data());
  table.Write(bytes);
  std::vector<UpdateLaunch> launches =
      table.LaunchesAt(reinterpret_cast<uintptr_t>(bytes));
  ASSERT_EQ(launches.size(), 1);
  UpdateWork& work = launches[0].work;
  ASSERT_LT(element / kChunkElements, work.num_chunks);
  work.chunks += element / kChunkElements;
  work.num_chunks = 1;
  RunUpdateOnHost(launches[0]);
}

template <typename T>
void ExpectElementsBeyond32Bits(DType dtype) {
  constexpr uint64_t kNumElements = (uint64_t{1} << 32) + 20'001;
  const SparseMemory value(kNumElements * sizeof(T));
  const SparseMemory gradient(kNumElements * sizeof(T));
  ASSERT_TRUE(value.is_there() && gradient.is_there());
  ASSERT_OK_AND_ASSIGN(const UpdateRule rule,
                       UpdateRule::Create({"accumulate", {}}));
  const TensorView from = {dtype, int64_t{kNumElements}, gradient.as<T>()};
  TensorUpdate update;
  update.rule = &rule;
  update.stored = {dtype, int64_t{kNumElements}, value.as<T>()};
  update.value = {dtype, int64_t{kNumElements}, value.as<T>()};
  update.contributions = {&from, 1};
  UpdateTable table;
  table.Add({&update, 1});

  for (const uint64_t at :
       {uint64_t{0}, uint64_t{1} << 30, (uint64_t{1} << 31) - 1,
        (uint64_t{1} << 31) + 1, uint64_t{1} << 32, kNumElements - 1}) {
    value.as<T>()[at] = 3;
    gradient.as<T>()[at] = 4;
    RunChunkOf(table, at);
    EXPECT_EQ(value.as<T>()[at], T(7)) << at;
    EXPECT_EQ(value.as<T>()[at > 0 ? at - 1 : 1], T(0)) << at;
  }
}

TEST(UpdateTableTest, ReachesElementsBeyond32Bits) {
  ExpectElementsBeyond32Bits<uint8_t>(DType::kU8);
  ExpectElementsBeyond32Bits<float>(DType::kF32);
}

// One array of f32 out of step with 16 bytes, the others in step, and a number
// of elements that leaves a tail of every length.
class MisalignedTest : public ::testing::TestWithParam<int> {};

TEST_P(MisalignedTest, GivesWhatAlignedTensorsGive) {
  ASSERT_OK_AND_ASSIGN(const UpdateRule rule,
                       UpdateRule::Create({"accumulate", {{"scale", 2}}}));
  const int size = 1024 + GetParam() / 4;
  const int shift = GetParam() % 4;
  alignas(64) float memory[3][2048];
  for (auto& row : memory) std::iota(std::begin(row), std::end(row), 1);
  for (int misaligned = 0; misaligned < 3; ++misaligned) {
    float* const stored = memory[0] + (misaligned == 0 ? shift : 0);
    float* const gradient = memory[1] + (misaligned == 1 ? shift : 0);
    float* const value = memory[2] + (misaligned == 2 ? shift : 0);
    std::vector<float> expected(size);
    for (int i = 0; i < size; ++i) expected[i] = stored[i] + 2 * gradient[i];
    const float behind = value[size];
    const TensorView contribution = {DType::kF32, size, gradient};

    RunOnHost(TensorUpdate{.rule = &rule,
                           .stored = {DType::kF32, size, stored},
                           .contributions = {&contribution, 1},
                           .value = {DType::kF32, size, value}});

    EXPECT_EQ(std::vector<float>(value, value + size), expected);
    EXPECT_EQ(value[size], behind);
  }
}

INSTANTIATE_TEST_SUITE_P(ShiftsAndTails, MisalignedTest,
                         ::testing::Range(0, 4 * 9));

TEST(UpdateTableTest, TenThousandTensorsAreOneLaunchAndOneFunctor) {
  const UpdateRule assign;
  std::vector<float> source(10'000, 7);
  std::vector<float> target(10'000);
  std::vector<TensorView> views;
  std::vector<TensorUpdate> batch;
  views.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    views.push_back({DType::kF32, 1, &source[i]});
    batch.push_back({.rule = &assign,
                     .contributions = {&views.back(), 1},
                     .value = {DType::kF32, 1, &target[i]}});
  }
  UpdateTable table;

  table.Add(batch);
  RunOnHost(table);

  EXPECT_EQ(table.LaunchesAt(0).size(), 1);
  EXPECT_EQ(table.size_bytes(),
            8 + 10'000 * (sizeof(UpdateEntry) + sizeof(SourceArray) +
                          sizeof(WorkChunk)));
  EXPECT_THAT(target, ::testing::Each(7));
}

TEST(UpdateTableTest, LargeTensorsAreCutIntoChunks) {
  const UpdateRule assign;
  const std::vector<char> source(2 * kChunkElements + 1);
  std::vector<char> target(source.size());
  const auto size = static_cast<int64_t>(source.size());
  const TensorView view = {DType::kI8, size, source.data()};
  const TensorUpdate update = {.rule = &assign,
                               .contributions = {&view, 1},
                               .value = {DType::kI8, size, target.data()}};
  UpdateTable table;

  table.Add({&update, 1});

  const std::vector<UpdateLaunch> launches = table.LaunchesAt(0);
  ASSERT_EQ(launches.size(), 1);
  EXPECT_EQ(launches[0].work.num_chunks, 3);
}

TEST(UpdateTableTest, FewChunksAreCutIntoParts) {
  const UpdateRule assign;
  for (const auto& [num_tensors, num_parts] :
       {std::pair(1, 16), {32, 16}, {33, 16}, {100, 8}, {511, 2}, {512, 1}}) {
    float element = 0;
    const std::vector<TensorUpdate> updates(
        num_tensors, {.rule = &assign, .value = {DType::kF32, 1, &element}});
    UpdateTable table;

    table.Add(updates);

    EXPECT_EQ(table.LaunchesAt(0)[0].work.num_parts, num_parts) << num_tensors;
  }
}

TEST(UpdateTableTest, UpdatesOfDifferentCountsHaveFunctorsOfTheirOwn) {
  ASSERT_OK_AND_ASSIGN(const UpdateRule adam, UpdateRule::Create({"adam"}));
  std::vector<float> memory(4);
  const TensorView gradient = {DType::kF32, 1, memory.data()};
  MutableTensorView states[] = {{DType::kF32, 1, &memory[1]},
                                {DType::kF32, 1, &memory[2]}};
  TensorUpdate update = {.rule = &adam,
                         .update_count = 1,
                         .stored = {DType::kF32, 1, &memory[3]},
                         .contributions = {&gradient, 1},
                         .states = states,
                         .value = {DType::kF32, 1, &memory[3]}};
  UpdateTable table;
  table.Add({&update, 1});
  const size_t one = table.size_bytes();
  table.Add({&update, 1});
  const size_t two = table.size_bytes();
  update.update_count = 2;

  table.Add({&update, 1});

  EXPECT_GT(table.size_bytes() - two, two - one);
  EXPECT_EQ(table.LaunchesAt(0).size(), 1);
}

TEST(UpdateTableTest, TensorsWithoutElementsAreLeftOut) {
  const UpdateRule assign;
  const TensorView nothing;
  const TensorUpdate update = {.rule = &assign, .contributions = {&nothing, 1}};
  UpdateTable table;

  table.Add({&update, 1});

  EXPECT_TRUE(table.empty());
  EXPECT_EQ(table.size_bytes(), 0);
}

}  // namespace
}  // namespace tensorkv::testing
