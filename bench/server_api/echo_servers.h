// The same two methods on each of gRPC's server APIs, as bytes: Echo answers a
// message with itself, Sink copies a stream of messages into memory and
// answers with nothing.

#ifndef TENSORKV_BENCH_SERVER_API_ECHO_SERVERS_H_
#define TENSORKV_BENCH_SERVER_API_ECHO_SERVERS_H_

#include <memory>
#include <string>

namespace tensorkv {

inline constexpr char kEchoPath[] = "/bench.Api/Echo";
inline constexpr char kSinkPath[] = "/bench.Api/Sink";
// Of the messages that Sink takes, at most.
inline constexpr size_t kMaxSinkBytes = 4 << 20;

// Serves from construction on, until the process ends.
class EchoServer {
 public:
  virtual ~EchoServer() = default;
  // On 127.0.0.1.
  virtual int port() const = 0;
};

// gRPC's own threads call back.
std::unique_ptr<EchoServer> NewCallbackServer();

// `num_threads` of ours poll one completion queue. Methods are registered, or
// go through the generic service, which sees a call before its message.
std::unique_ptr<EchoServer> NewQueueServer(int num_threads);
std::unique_ptr<EchoServer> NewGenericQueueServer(int num_threads);

}  // namespace tensorkv

#endif  // TENSORKV_BENCH_SERVER_API_ECHO_SERVERS_H_
