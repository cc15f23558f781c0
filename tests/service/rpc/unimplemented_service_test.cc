#include "service/rpc/unimplemented_service.h"

#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "contract/method.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tensorkv/v1/service.pb.h"
#include "tests/service/rpc/live_service.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using testing::StatusIs;

TEST(UnimplementedServiceTest, EveryMethodOfTheContractHasAHandler) {
  std::set<std::string> implemented;
  for (const Method method : kAllMethods) {
    implemented.insert(std::string(NameOf(method)));
  }
  const google::protobuf::ServiceDescriptor* contract =
      v1::DescribeServerRequest::descriptor()->file()->service(0);

  for (int i = 0; i < contract->method_count(); ++i) {
    EXPECT_THAT(implemented, Contains(contract->method(i)->name()));
  }
}

TEST(UnimplementedServiceTest, UnknownMethodIsUnimplementedByName) {
  testing::LiveService service;
  const std::string path = "/tensorkv.v1.TensorKV/NoSuchMethod";

  EXPECT_THAT(FromGrpcStatus(service.CallWithBytes(path, "")),
              StatusIs(absl::StatusCode::kUnimplemented,
                       absl::StrCat("this server does not implement ", path)));
}

TEST(UnimplementedServiceTest, UnknownServiceIsUnimplementedByName) {
  testing::LiveService service;

  EXPECT_THAT(FromGrpcStatus(service.CallWithBytes("/x.Y/Z", "bytes")),
              StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("/x.Y/Z")));
}

TEST(UnimplementedServiceTest, EndsAStreamThatIsStillBeingWritten) {
  testing::LiveService service;
  grpc::ClientContext context;
  const grpc::internal::RpcMethod method(
      "/x.Y/Stream", grpc::internal::RpcMethod::BIDI_STREAMING);
  using Factory = grpc::internal::ClientReaderWriterFactory<v1::PushChunk,
                                                            v1::PushResponse>;
  const std::unique_ptr<
      grpc::ClientReaderWriter<v1::PushChunk, v1::PushResponse>>
      stream(Factory::Create(service.channel().get(), method, &context));

  stream->Write(v1::PushChunk());

  EXPECT_THAT(
      FromGrpcStatus(stream->Finish()),
      StatusIs(absl::StatusCode::kUnimplemented, HasSubstr("/x.Y/Stream")));
}

}  // namespace
}  // namespace tensorkv
