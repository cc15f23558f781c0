#include "bench/data_path/sockets/pipeline.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Sends back what it gets, on every connection, until the peer closes.
class EchoServer {
 public:
  explicit EchoServer(int num_connections)
      : listener_(ListenOn("127.0.0.1:0").value()),
        thread_([this, num_connections] { Run(num_connections); }) {}
  ~EchoServer() { thread_.join(); }

  std::string address() const { return AddressOf(listener_).value(); }

 private:
  void Run(int num_connections) {
    std::vector<std::thread> threads;
    for (int i = 0; i < num_connections; ++i) {
      threads.emplace_back(
          [socket = AcceptFrom(listener_).value()] { Echo(socket); });
    }
    for (std::thread& thread : threads) thread.join();
  }

  static void Echo(const Socket& socket) {
    char buffer[1 << 16];
    while (true) {
      const ssize_t size = read(socket.fd(), buffer, sizeof(buffer));
      if (size <= 0) return;
      for (ssize_t sent = 0; sent < size;) {
        sent += send(socket.fd(), buffer + sent, size - sent, MSG_NOSIGNAL);
      }
    }
  }

  const Socket listener_;
  std::thread thread_;  // last: it uses the listener
};

// A call that sends `value` and gets it into `room`.
PipelinedCall EchoCall(int connection, const std::string& value,
                       std::string* room) {
  PipelinedCall call;
  PipelinedCall::Part& part = call.parts.emplace_back();
  part.connection = connection;
  part.exchange.Send("header");
  part.exchange.SendValues(value.data(), value.size());
  part.exchange.Expect("header");
  part.exchange.ReceiveValues(room->data(), room->size());
  return call;
}

struct PipelineTest : ::testing::Test {
  absl::Status Run(Pipeline* pipeline, const std::vector<PipelinedCall>& calls,
                   int64_t num_calls) {
    return pipeline->Run(calls, num_calls, [this](absl::Duration latency) {
      latencies_.push_back(latency);
    });
  }

  std::vector<absl::Duration> latencies_;
};

TEST_F(PipelineTest, OneCallAfterTheOther) {
  const EchoServer server(1);
  const std::string value = "value";
  std::string room(value.size(), '?');
  Pipeline pipeline = Pipeline::Connect(server.address(), 1).value();
  std::vector<PipelinedCall> calls;
  calls.push_back(EchoCall(0, value, &room));

  ASSERT_OK(Run(&pipeline, calls, 3));

  EXPECT_EQ(room, value);
  EXPECT_THAT(latencies_, SizeIs(3));
}

// More bytes than the system keeps: whoever only sends, or only receives,
// waits for ever.
TEST_F(PipelineTest, LargeCallsInFlightDoNotBlockEachOther) {
  const EchoServer server(1);
  const std::string value(8 << 20, 'v');
  std::vector<std::string> rooms(4, std::string(value.size(), '?'));
  Pipeline pipeline = Pipeline::Connect(server.address(), 1).value();
  std::vector<PipelinedCall> calls;
  for (std::string& room : rooms) calls.push_back(EchoCall(0, value, &room));

  ASSERT_OK(Run(&pipeline, calls, 6));

  for (const std::string& room : rooms) EXPECT_TRUE(room == value);
  EXPECT_THAT(latencies_, SizeIs(6));
}

TEST_F(PipelineTest, ACallEndsWithTheLastOfItsParts) {
  const EchoServer server(2);
  const std::string value(1 << 20, 'v');
  std::string first(value.size(), '?');
  std::string second(value.size(), '?');
  Pipeline pipeline = Pipeline::Connect(server.address(), 2).value();
  std::vector<PipelinedCall> calls;
  calls.push_back(EchoCall(0, value, &first));
  calls[0].parts.push_back(std::move(EchoCall(1, value, &second).parts[0]));

  ASSERT_OK(Run(&pipeline, calls, 2));

  EXPECT_TRUE(first == value);
  EXPECT_TRUE(second == value);
  EXPECT_THAT(latencies_, SizeIs(2));
}

TEST_F(PipelineTest, AnotherReplyIsAnError) {
  const EchoServer server(1);
  Pipeline pipeline = Pipeline::Connect(server.address(), 1).value();
  std::vector<PipelinedCall> calls(1);
  Exchange& exchange = calls[0].parts.emplace_back().exchange;
  exchange.Send("-ERR");
  exchange.Expect("+OK\r\n");

  EXPECT_THAT(Run(&pipeline, calls, 1),
              StatusIs(absl::StatusCode::kInternal, HasSubstr("-ERR")));
}

TEST_F(PipelineTest, AServerThatClosesIsUnavailable) {
  const Socket listener = ListenOn("127.0.0.1:0").value();
  Pipeline pipeline = Pipeline::Connect(AddressOf(listener).value(), 1).value();
  { const Socket closed = AcceptFrom(listener).value(); }
  std::vector<PipelinedCall> calls(1);
  Exchange& exchange = calls[0].parts.emplace_back().exchange;
  exchange.Send("hello");
  exchange.Expect("hello");

  EXPECT_THAT(Run(&pipeline, calls, 1),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace tensorkv::bench
