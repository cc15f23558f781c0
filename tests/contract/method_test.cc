#include "contract/method.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {
namespace {

const google::protobuf::ServiceDescriptor* Contract() {
  return v1::DescribeServerRequest::descriptor()->file()->FindServiceByName(
      "TensorKV");
}

class MethodTest : public ::testing::TestWithParam<Method> {};

// How go-grpc-prometheus calls the type of a method.
absl::string_view TypeOf(const google::protobuf::MethodDescriptor& method) {
  if (method.client_streaming()) {
    return method.server_streaming() ? "bidi_stream" : "client_stream";
  }
  return method.server_streaming() ? "server_stream" : "unary";
}

TEST_P(MethodTest, IsAMethodOfTheContractWithItsType) {
  const google::protobuf::MethodDescriptor* method =
      Contract()->FindMethodByName(std::string(NameOf(GetParam())));

  ASSERT_NE(method, nullptr);
  EXPECT_EQ(NameOf(KindOf(GetParam())), TypeOf(*method));
}

TEST_P(MethodTest, HasThePathThatGrpcGivesIt) {
  EXPECT_EQ(PathOf(GetParam()),
            absl::StrCat("/", kServiceName, "/", NameOf(GetParam())));
}

TEST_P(MethodTest, HasACallIdIfThatTellsARepeat) {
  const auto* const method =
      Contract()->FindMethodByName(std::string(NameOf(GetParam())));
  const bool has_call_id =
      method->input_type()->FindFieldByName("call_id") != nullptr;
  // These have it in their push, or in their manifest.
  const bool has_inner_call_id = GetParam() == Method::kPushPull ||
                                 KindOf(GetParam()) != MethodKind::kUnary;

  if (RepeatOf(GetParam()) == Repeat::kByCallId) {
    EXPECT_TRUE(has_call_id || has_inner_call_id);
  }
  if (RepeatOf(GetParam()) == Repeat::kNever) {
    EXPECT_FALSE(has_call_id);
  }
}

TEST_P(MethodTest, IsAnIndexOfItsOwn) {
  EXPECT_EQ(kAllMethods[static_cast<size_t>(GetParam())], GetParam());
}

INSTANTIATE_TEST_SUITE_P(AllMethods, MethodTest,
                         ::testing::ValuesIn(kAllMethods));

TEST(ServiceNameTest, IsTheContracts) {
  EXPECT_EQ(Contract()->full_name(), kServiceName);
}

}  // namespace
}  // namespace tensorkv
