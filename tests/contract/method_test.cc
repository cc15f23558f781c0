#include "contract/method.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/peer.pb.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {
namespace {

using ::google::protobuf::MethodDescriptor;
using ::google::protobuf::ServiceDescriptor;

const ServiceDescriptor* InProto(Service service) {
  // Their files are linked, and so in the pool.
  const auto* const pool = v1::PingRequest::descriptor()->file()->pool();
  EXPECT_EQ(pool, v1::DescribeServerRequest::descriptor()->file()->pool());
  return pool->FindServiceByName(std::string(NameOf(service)));
}

const MethodDescriptor* InProto(Method method) {
  return InProto(ServiceOf(method))
      ->FindMethodByName(std::string(NameOf(method)));
}

class MethodTest : public ::testing::TestWithParam<Method> {};

TEST_P(MethodTest, HasThePathThatGrpcGivesIt) {
  EXPECT_EQ(PathOf(GetParam()), absl::StrCat("/", NameOf(ServiceOf(GetParam())),
                                             "/", NameOf(GetParam())));
}

TEST_P(MethodTest, HasACallIdIfThatTellsARepeat) {
  const bool has_call_id =
      InProto(GetParam())->input_type()->FindFieldByName("call_id") != nullptr;
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

TEST(ServiceTest, AllOfTheContractAreInTheTable) {
  std::set<std::string> in_table;
  for (const Service service : kAllServices) in_table.emplace(NameOf(service));
  std::set<std::string> in_proto;
  for (const auto* file : {v1::DescribeServerRequest::descriptor()->file(),
                           v1::PingRequest::descriptor()->file()}) {
    for (int i = 0; i < file->service_count(); ++i) {
      in_proto.insert(file->service(i)->full_name());
    }
  }

  EXPECT_EQ(in_table, in_proto);
}

}  // namespace
}  // namespace tensorkv
