#include "service/rpc/unimplemented_service.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/rpc/live_service.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::HasSubstr;
using testing::StatusIs;

TEST(UnimplementedServiceTest, UnknownMethodIsUnimplementedByName) {
  testing::LiveService service;
  const std::string path = "/tensorkv.v1.Data/NoSuchMethod";

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
