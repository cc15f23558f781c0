// A server in between that loses replies.

#ifndef TENSORKV_TESTS_INTEGRATION_REPLY_DROPPING_PROXY_H_
#define TENSORKV_TESTS_INTEGRATION_REPLY_DROPPING_PROXY_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace tensorkv::testing {

// Hands unary calls on to a server on loopback, with the metadata that a client
// and a server of ours exchange. Of the replies, each drawn with the same
// probability, some are lost: the server has made the call, and the caller
// hears that the server is Unavailable. Thread-safe.
class ReplyDroppingProxy final : public grpc::CallbackGenericService {
 public:
  ReplyDroppingProxy(const std::string& target, double drop_probability,
                     uint64_t seed);
  ~ReplyDroppingProxy() override;

  const std::string& address() const { return address_; }
  int num_dropped();

 private:
  class Call;

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* context) override;
  // Draws whether the next reply is lost.
  bool DropsReply();

  grpc::GenericStub stub_;
  const double drop_probability_;
  std::string address_;
  Mutex mutex_;
  std::mt19937_64 random_ ABSL_GUARDED_BY(mutex_);
  int num_dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_REPLY_DROPPING_PROXY_H_
