#include "service/rpc/method.h"

#include <string>

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

TEST_P(MethodTest, IsAUnaryMethodOfTheContract) {
  const google::protobuf::MethodDescriptor* method =
      Contract()->FindMethodByName(std::string(NameOf(GetParam())));

  ASSERT_NE(method, nullptr);
  EXPECT_FALSE(method->client_streaming());
  EXPECT_FALSE(method->server_streaming());
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
