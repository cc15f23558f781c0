// Peers that misuse streams: whatever they do, they get a clear status, the
// server's memory stays bounded and comes back, and other clients go on.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "gtest/gtest.h"
#include "tests/integration/server_process.h"
#include "tests/testing/stubs.h"

namespace tensorkv::testing {
namespace {

using ::testing::AnyOf;
using ::testing::Eq;
using ::testing::HasSubstr;
using Clock = std::chrono::steady_clock;
using PushWriter = std::unique_ptr<grpc::ClientWriter<v1::PushChunk>>;

constexpr int64_t kLargeElements = 16 << 20;  // 64 MiB of f32
constexpr uint64_t kMiB = 1 << 20;

// One connection of its own.
std::unique_ptr<Stubs> Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return std::make_unique<Stubs>(grpc::CreateCustomChannel(
      address, grpc::InsecureChannelCredentials(), arguments));
}

v1::PushChunk Manifest(const std::string& key, int64_t num_elements) {
  v1::PushChunk chunk;
  v1::PushEntry& entry =
      *chunk.mutable_manifest()->mutable_push()->add_entries();
  entry.set_key(key);
  entry.mutable_tensor()->set_dtype(v1::DTYPE_F32);
  entry.mutable_tensor()->add_shape(num_elements);
  return chunk;
}

v1::PushChunk Part(uint64_t offset, size_t size) {
  v1::PushChunk chunk;
  chunk.mutable_part()->set_offset(offset);
  chunk.mutable_part()->set_data(std::string(size, '\1'));
  return chunk;
}

class StreamAttacksTest : public ::testing::Test {
 protected:
  uint64_t ResidentBytes() const {
    return server_.StatusField("VmRSS:") * 1024;
  }

  void SetUp() override {
    address_ = server_.AwaitAddress();
    stub_ = Connect(address_);
    Init("small", 1024);
    values_bytes_ = Memory().values();
  }

  // All that was staged is gone, and no value has changed.
  void TearDown() override {
    AwaitStagedBytes(0);
    EXPECT_EQ(Memory().values(), values_bytes_);
    v1::StatRequest request;
    request.add_keys("small");
    if (has_large_) request.add_keys("large");
    v1::StatResponse reply;
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Stat(&context, request, &reply).ok());
    for (const auto& key : reply.keys()) EXPECT_EQ(key.version(), 1u);
  }

  // Zeros.
  void Init(const std::string& key, int64_t num_elements) {
    v1::InitResponse reply;
    grpc::ClientContext context;
    const auto writer = stub_->InitStream(&context, &reply);
    v1::InitChunk chunk;
    v1::InitEntry& entry =
        *chunk.mutable_manifest()->mutable_init()->add_entries();
    entry.set_key(key);
    entry.mutable_tensor()->set_dtype(v1::DTYPE_F32);
    entry.mutable_tensor()->add_shape(num_elements);
    writer->Write(chunk);
    const uint64_t bytes = num_elements * sizeof(float);
    for (uint64_t offset = 0; offset < bytes; offset += kMiB) {
      chunk.mutable_part()->set_offset(offset);
      chunk.mutable_part()->set_data(
          std::string(std::min(kMiB, bytes - offset), '\0'));
      writer->Write(chunk);
    }
    writer->WritesDone();
    const grpc::Status status = writer->Finish();
    ASSERT_TRUE(status.ok()) << status.error_message();
  }

  v1::MemoryUse Memory() {
    v1::DescribeNamespaceResponse reply;
    grpc::ClientContext context;
    EXPECT_TRUE(stub_->DescribeNamespace(&context, {}, &reply).ok());
    return reply.status().memory();
  }

  // Empty where none is given.
  std::string TicketFor(const std::string& key) {
    v1::PullRequest request;
    request.add_entries()->set_key(key);
    request.set_ticket_from_bytes(1);
    v1::PullResponse reply;
    grpc::ClientContext context;
    const grpc::Status status = stub_->Pull(&context, request, &reply);
    if (!status.ok()) {
      EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    }
    return reply.ticket().id();
  }

  void Delete(const std::string& key) {
    v1::DeleteRequest request;
    request.add_keys(key);
    v1::DeleteResponse reply;
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->Delete(&context, request, &reply).ok());
  }

  void AwaitStagedBytes(uint64_t bytes) {
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (Memory().contributions() != bytes && Clock::now() < deadline) {
      std::this_thread::yield();
    }
    ASSERT_EQ(Memory().contributions(), bytes);
  }

  void AwaitValueBytes(uint64_t bytes) {
    const auto deadline = Clock::now() + std::chrono::seconds(30);
    while (Memory().values() != bytes && Clock::now() < deadline) {
      std::this_thread::yield();
    }
    ASSERT_EQ(Memory().values(), bytes);
  }

  // Opens a push of 64 MiB on `context`.
  PushWriter OpenPush(grpc::ClientContext* context) {
    if (!has_large_) {
      Init("large", kLargeElements);
      values_bytes_ = Memory().values();
      has_large_ = true;
    }
    PushWriter writer = stub_->PushStream(context, &push_reply_);
    EXPECT_TRUE(writer->Write(Manifest("large", kLargeElements)));
    return writer;
  }

  // The time of one Stat of another client, on a connection of its own.
  static double StatMicroseconds(Stubs& stub) {
    v1::StatRequest request;
    request.add_keys("small");
    v1::StatResponse reply;
    grpc::ClientContext context;
    const auto start = Clock::now();
    EXPECT_TRUE(stub.Stat(&context, request, &reply).ok());
    return std::chrono::duration<double, std::micro>(Clock::now() - start)
        .count();
  }

  static double P99Microseconds(Stubs& stub) {
    std::vector<double> times;
    for (int i = 0; i < 300; ++i) times.push_back(StatMicroseconds(stub));
    std::sort(times.begin(), times.end());
    return times[times.size() * 99 / 100];
  }

  ServerProcess server_{{"--listen=127.0.0.1:0", "--metrics_listen=",
                         "--budget=512MiB", "--stream_timeout=1s"}};
  std::string address_;
  std::unique_ptr<Stubs> stub_;
  v1::PushResponse push_reply_;
  bool has_large_ = false;
  uint64_t values_bytes_ = 0;
};

TEST_F(StreamAttacksTest, ThousandHalfOpenStreamsAreBoundedAndCutOff) {
  const auto other_client = Connect(address_);
  const double before_us = P99Microseconds(*other_client);
  const uint64_t resident_before = ResidentBytes();
  struct HalfOpen {
    grpc::ClientContext context;
    v1::PushResponse reply;
    PushWriter writer;
  };
  std::vector<std::unique_ptr<Stubs>> stubs;
  std::vector<std::unique_ptr<HalfOpen>> streams;
  for (int i = 0; i < 1000; ++i) {
    if (i % 100 == 0) stubs.push_back(Connect(address_));
    auto stream = std::make_unique<HalfOpen>();
    stream->writer = stubs.back()->PushStream(&stream->context, &stream->reply);
    stream->writer->Write(Manifest("small", 1024));
    streams.push_back(std::move(stream));
  }

  const double during_us = P99Microseconds(*other_client);
  const uint64_t resident = ResidentBytes();

  for (const auto& stream : streams) {
    const grpc::Status status = stream->writer->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED)
        << status.error_message();
  }
  EXPECT_LT(resident, resident_before + 256 * kMiB);
  std::cout << "p99 of another client's calls: " << before_us << " us before, "
            << during_us << " us during 1000 half-open "
            << "streams; resident memory +"
            << (resident - resident_before) / kMiB << " MiB\n";
}

TEST_F(StreamAttacksTest, SenderOfSingleBytesIsCutOff) {
  grpc::ClientContext context;
  PushWriter writer = OpenPush(&context);

  // At the pace of another client's calls, some hundred a second.
  const auto other_client = Connect(address_);
  uint64_t offset = 0;
  while (writer->Write(Part(offset++, 1))) {
    for (int i = 0; i < 20; ++i) StatMicroseconds(*other_client);
  }

  const grpc::Status status = writer->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("stream: expected "));
}

TEST_F(StreamAttacksTest, ReaderThatStopsIsCutOff) {
  Init("doomed", kLargeElements);
  grpc::ClientContext context;
  v1::PullStreamRequest request;
  request.set_ticket(TicketFor("doomed"));
  const auto reader = stub_->PullStream(&context, request);
  v1::PullChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));

  // The stream holds the value, which nothing else does any more.
  Delete("doomed");
  EXPECT_GT(Memory().values(), values_bytes_);
  AwaitValueBytes(values_bytes_);

  int num_parts = 0;
  while (reader->Read(&chunk)) ++num_parts;
  EXPECT_LT(num_parts, 64);
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// They hold no more than the values that they were given for, and not for long.
TEST_F(StreamAttacksTest, TicketsThatNobodyTakesAreBoundedAndEnd) {
  Init("doomed", kLargeElements);
  int num_given = 0;
  while (!TicketFor("doomed").empty()) ++num_given;
  EXPECT_EQ(num_given, 512);
  Delete("doomed");
  EXPECT_GT(Memory().values(), values_bytes_);

  AwaitValueBytes(values_bytes_);
}

TEST_F(StreamAttacksTest, StreamThatBreaksLeavesNoTrace) {
  grpc::ClientContext context;
  PushWriter writer = OpenPush(&context);
  for (uint64_t i = 0; i < 63; ++i) writer->Write(Part(i * kMiB, kMiB));

  context.TryCancel();

  EXPECT_EQ(writer->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(StreamAttacksTest, ManifestsOverTheBudgetAreRefusedAtOnce) {
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<PushWriter> writers;
  for (int i = 0; i < 20; ++i) {
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    writers.push_back(OpenPush(contexts.back().get()));
  }

  // 20 x 64 MiB do not fit; those that do not are told so, the others wait
  // for their parts and are cut off.
  int num_refused = 0;
  for (PushWriter& writer : writers) {
    const grpc::StatusCode code = writer->Finish().error_code();
    EXPECT_THAT(code, AnyOf(Eq(grpc::StatusCode::RESOURCE_EXHAUSTED),
                            Eq(grpc::StatusCode::DEADLINE_EXCEEDED)));
    num_refused += code == grpc::StatusCode::RESOURCE_EXHAUSTED;
  }
  EXPECT_GE(num_refused, 12);
}

}  // namespace
}  // namespace tensorkv::testing
