#include "kernels/cpu/cpu_backend.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/supported_kernels.h"
#include "tests/contracts/backend/backend_contract.h"
#include "tests/contracts/backend/update_case.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace testing {
namespace {

struct OneThread {
  static absl::StatusOr<std::unique_ptr<Backend>> Create() {
    return std::make_unique<CpuBackend>(1);
  }
};

struct ThreeThreads {
  static absl::StatusOr<std::unique_ptr<Backend>> Create() {
    return std::make_unique<CpuBackend>(3);
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(OneThread, BackendContractTest, OneThread);
INSTANTIATE_TYPED_TEST_SUITE_P(ThreeThreads, BackendContractTest, ThreeThreads);

std::vector<UpdateCase> AllCases() {
  std::vector<UpdateCase> cases = SmallCases();
  for (const UpdateCase& large : LargeCases()) cases.push_back(large);
  for (const UpdateCase& special : SpecialCases()) cases.push_back(special);
  return cases;
}

TEST(CpuBackendTest, EveryInstructionSetGivesTheSameBits) {
  const std::vector<UpdateCase> cases = AllCases();
  std::vector<const KernelTable*> tables = SupportedKernels();
  CpuBackend first(1, *tables.front());
  ASSERT_OK_AND_ASSIGN(const std::vector<std::string> expected,
                       ResultBytes(first, cases));

  tables.erase(tables.begin());
  for (const KernelTable* kernels : tables) {
    CpuBackend backend(1, *kernels);
    EXPECT_OK(CheckAveragedUpdates(backend)) << kernels->instruction_set;
    ASSERT_OK_AND_ASSIGN(const std::vector<std::string> actual,
                         ResultBytes(backend, cases));
    for (size_t i = 0; i < cases.size(); ++i) {
      EXPECT_EQ(actual[i], expected[i])
          << kernels->instruction_set << ": " << cases[i].ToString();
    }
  }
}

TEST(CpuBackendTest, CallersOnSeveralThreadsShareTheBackend) {
  const std::vector<UpdateCase> cases = LargeCases();
  CpuBackend one(1);
  CpuBackend backend(3);
  ASSERT_OK_AND_ASSIGN(const auto expected, ResultBytes(one, cases));
  std::vector<absl::StatusOr<std::vector<std::string>>> results(
      3, absl::UnknownError("did not run"));

  std::vector<std::thread> callers;
  for (auto& result : results) {
    callers.emplace_back([&] { result = ResultBytes(backend, cases); });
  }
  for (std::thread& caller : callers) caller.join();

  EXPECT_THAT(results, ::testing::Each(IsOkAndHolds(expected)));
}

TEST(CpuBackendTest, ContributionsNeedNoMoreThanElementAlignment) {
  CpuBackend backend(1);
  const UpdateRule assign;
  alignas(64) float memory[101];
  for (int i = 0; i < 101; ++i) memory[i] = i;
  const std::vector<TensorView> contributions = {{DType::kF32, 100, memory + 1},
                                                 {DType::kF32, 100, memory}};
  std::vector<float> value(100);

  ASSERT_OK(backend.Apply({{.rule = &assign,
                            .contributions = contributions,
                            .value = {DType::kF32, 100, value.data()}}}));

  EXPECT_EQ(value[0], 1);
  EXPECT_EQ(value[99], 199);
}

}  // namespace
}  // namespace testing
}  // namespace tensorkv
