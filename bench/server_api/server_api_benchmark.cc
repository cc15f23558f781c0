// Measures gRPC's server APIs beside each other: small calls one at a time and
// 16 at once, and one stream of large messages. Servers run on the first CPU,
// the client on the last; rounds are interleaved, and medians are printed.
// docs/decisions/0008 has the figures and what follows from them.
//
//   server_api_benchmark [ROUNDS]

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "bench/server_api/echo_servers.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "grpcpp/support/sync_stream.h"

namespace tensorkv {
namespace {

using grpc::ByteBuffer;
using Clock = std::chrono::steady_clock;

constexpr size_t kSmallBytes = 4096;
constexpr size_t kPartBytes = 1 << 20;
constexpr int kNumSmallCalls = 2000;
constexpr int kNumParts = 256;
constexpr int kInFlight = 16;

struct Contestant {
  const char* name;
  std::function<std::unique_ptr<EchoServer>()> start;
  int port = 0;
  pid_t process = 0;
  std::vector<double> p50_us, p99_us, calls_per_s, gb_per_s;
};

void Pin(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

// Runs a server in a process of its own, which ends with this one's pipe.
void Start(Contestant& contestant) {
  int pipe_ends[2];
  if (pipe(pipe_ends) != 0) std::abort();
  contestant.process = fork();
  if (contestant.process == 0) {
    Pin(0);
    const auto server = contestant.start();
    const int port = server->port();
    if (write(pipe_ends[1], &port, sizeof(port)) != sizeof(port)) _exit(1);
    pause();
    _exit(0);
  }
  if (read(pipe_ends[0], &contestant.port, sizeof(int)) != sizeof(int)) {
    std::abort();
  }
}

std::shared_ptr<grpc::Channel> Connect(const Contestant& contestant) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 8 << 20);
  return grpc::CreateCustomChannel(
      "127.0.0.1:" + std::to_string(contestant.port),
      grpc::InsecureChannelCredentials(), arguments);
}

ByteBuffer MessageOf(size_t bytes) {
  const grpc::Slice slice(std::string(bytes, 'x'));
  return ByteBuffer(&slice, 1);
}

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * (values.size() - 1))];
}

void Check(const grpc::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "call failed: %s\n", status.error_message().c_str());
  std::exit(1);
}

void MeasureOneAtATime(Contestant& contestant, grpc::Channel* channel) {
  const grpc::internal::RpcMethod method(kEchoPath,
                                         grpc::internal::RpcMethod::NORMAL_RPC);
  const ByteBuffer request = MessageOf(kSmallBytes);
  std::vector<double> microseconds;
  for (int i = 0; i < kNumSmallCalls; ++i) {
    grpc::ClientContext context;
    ByteBuffer reply;
    const auto start = Clock::now();
    Check(grpc::internal::BlockingUnaryCall<ByteBuffer, ByteBuffer>(
        channel, method, &context, request, &reply));
    microseconds.push_back(SecondsSince(start) * 1e6);
  }
  contestant.p50_us.push_back(Percentile(microseconds, 0.5));
  contestant.p99_us.push_back(Percentile(microseconds, 0.99));
}

struct EchoInFlight {
  grpc::ClientContext context;
  ByteBuffer reply;
  grpc::Status status;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> reader;
};

void MeasureManyAtOnce(Contestant& contestant,
                       const std::shared_ptr<grpc::Channel>& channel) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  const ByteBuffer request = MessageOf(kSmallBytes);
  int num_sent = 0;
  const auto send = [&] {
    if (num_sent++ >= kNumSmallCalls) return;
    auto* call = new EchoInFlight;
    call->reader =
        stub.PrepareUnaryCall(&call->context, kEchoPath, request, &queue);
    call->reader->StartCall();
    call->reader->Finish(&call->reply, &call->status, call);
  };
  const auto start = Clock::now();
  for (int i = 0; i < kInFlight; ++i) send();
  for (int i = 0; i < kNumSmallCalls; ++i) {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    const std::unique_ptr<EchoInFlight> call(static_cast<EchoInFlight*>(tag));
    Check(call->status);
    send();
  }
  contestant.calls_per_s.push_back(kNumSmallCalls / SecondsSince(start));
}

void MeasureStream(Contestant& contestant, grpc::Channel* channel) {
  const grpc::internal::RpcMethod method(
      kSinkPath, grpc::internal::RpcMethod::BIDI_STREAMING);
  const ByteBuffer part = MessageOf(kPartBytes);
  grpc::ClientContext context;
  const auto start = Clock::now();
  const std::unique_ptr<grpc::ClientReaderWriter<ByteBuffer, ByteBuffer>>
      stream(grpc::internal::ClientReaderWriterFactory<
             ByteBuffer, ByteBuffer>::Create(channel, method, &context));
  for (int i = 0; i < kNumParts; ++i) {
    stream->Write(part, grpc::WriteOptions().set_buffer_hint());
  }
  stream->WritesDone();
  ByteBuffer reply;
  stream->Read(&reply);
  Check(stream->Finish());
  contestant.gb_per_s.push_back(static_cast<double>(kNumParts) * kPartBytes /
                                SecondsSince(start) / 1e9);
}

void Print(const Contestant& contestant) {
  std::printf("%-16s %10.1f %10.1f %12.0f %10.2f\n", contestant.name,
              Percentile(contestant.p50_us, 0.5),
              Percentile(contestant.p99_us, 0.5),
              Percentile(contestant.calls_per_s, 0.5),
              Percentile(contestant.gb_per_s, 0.5));
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  std::vector<Contestant> contestants = {
      {"callback", NewCallbackServer},
      {"queue, 1 thread", [] { return NewQueueServer(1); }},
      {"queue, 2", [] { return NewQueueServer(2); }},
      {"generic queue, 1", [] { return NewGenericQueueServer(1); }},
      {"generic queue, 2", [] { return NewGenericQueueServer(2); }}};
  for (Contestant& contestant : contestants) Start(contestant);
  Pin(static_cast<int>(std::thread::hardware_concurrency()) - 1);
  for (int round = 0; round < rounds; ++round) {
    for (Contestant& contestant : contestants) {
      const auto channel = Connect(contestant);
      MeasureOneAtATime(contestant, channel.get());
      MeasureManyAtOnce(contestant, channel);
      MeasureStream(contestant, channel.get());
    }
  }
  std::printf("%-16s %10s %10s %12s %10s\n", "server", "p50 us", "p99 us",
              "calls/s @16", "GB/s");
  for (const Contestant& contestant : contestants) {
    Print(contestant);
    kill(contestant.process, SIGKILL);
    waitpid(contestant.process, nullptr, 0);
  }
  return 0;
}

}  // namespace
}  // namespace tensorkv

int main(int argc, char** argv) { return tensorkv::Main(argc, argv); }
