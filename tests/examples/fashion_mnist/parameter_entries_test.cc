#include "examples/fashion_mnist/parameter_entries.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::fashion_mnist {
namespace parameter_entries_test {

using ::absl::StatusCode;
using ::tensorkv::testing::StatusIs;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr NetworkSize kSmall = {.inputs = 3, .hidden = 2, .classes = 4};

PullReply ReplyOf(const Parameters& parameters) {
  PullReply reply;
  for (const Tensor& tensor : parameters) {
    reply.values.push_back({.version = 1, .tensor = tensor});
  }
  return reply;
}

TEST(ParameterEntriesTest, EntriesHaveKeysAndShareTensors) {
  ASSERT_OK_AND_ASSIGN(const Parameters parameters,
                       InitialParameters(kSmall, 1));

  const std::vector<InitEntry> init = InitEntries(parameters);
  const std::vector<PushEntry> push = PushEntries(parameters);

  EXPECT_THAT(PullKeys(),
              ElementsAre(init[0].key, init[1].key, init[2].key, init[3].key));
  EXPECT_THAT(PullKeys(),
              ElementsAre(push[0].key, push[1].key, push[2].key, push[3].key));
  EXPECT_EQ(init[0].tensor.data(), parameters[0].data());
  EXPECT_EQ(push[3].tensor.data(), parameters[3].data());
}

TEST(ParameterEntriesTest, ReplyGivesParametersBack) {
  ASSERT_OK_AND_ASSIGN(const Parameters parameters,
                       InitialParameters(kSmall, 1));

  ASSERT_OK_AND_ASSIGN(const Parameters read,
                       ParametersOf(kSmall, ReplyOf(parameters)));

  EXPECT_EQ(read[2].data(), parameters[2].data());
}

TEST(ParameterEntriesTest, ReplyWithTooFewValuesIsInvalid) {
  EXPECT_THAT(ParametersOf(kSmall, PullReply{}),
              StatusIs(StatusCode::kInvalidArgument,
                       HasSubstr("expected 4 parameters, got 0")));
}

TEST(ParameterEntriesTest, ReplyOfAnotherNetworkIsInvalid) {
  ASSERT_OK_AND_ASSIGN(const Parameters parameters,
                       InitialParameters(NetworkSize{.inputs = 9}, 1));

  EXPECT_THAT(ParametersOf(kSmall, ReplyOf(parameters)),
              StatusIs(StatusCode::kInvalidArgument, HasSubstr("fc1.weight")));
}

}  // namespace parameter_entries_test
}  // namespace tensorkv::fashion_mnist
