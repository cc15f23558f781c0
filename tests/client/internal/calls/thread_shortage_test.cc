// Calls that are started where the system has no threads to give.

#include <pthread.h>

#include <atomic>
#include <memory>
#include <system_error>
#include <thread>

#include "client/internal/transfer/grpc_connection.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/call_verb.h"
#include "tests/client/fake_service.h"
#include "tests/client/starting_connection.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace {

// So many threads has the system to give.
std::atomic<int> num_threads_left = 0;

}  // namespace

// This is what programs have instead of the library's: it starts the thread.
void std::thread::_M_start_thread(_State_ptr state, void (*)()) {
  const auto run = [](void* state) -> void* {
    _State_ptr(static_cast<_State*>(state))->_M_run();
    return nullptr;
  };
  if (num_threads_left-- <= 0 ||
      pthread_create(&_M_id._M_thread, nullptr, run, state.get()) != 0) {
    throw std::system_error(EAGAIN, std::generic_category());
  }
  [[maybe_unused]] _State* const is_the_threads = state.release();
}

namespace tensorkv {
namespace {

using ::tensorkv::testing::CallVerb;
using ::tensorkv::testing::FakeService;
using ::tensorkv::testing::HasReason;
using ::tensorkv::testing::StartingConnection;

TEST(ThreadShortageTest, CallFailsWithoutAThreadAndTakesOne) {
  FakeService service;
  StartingConnection connection(
      *GrpcConnection::Create({.target = service.Start()}));

  EXPECT_THAT(CallVerb("Pull", connection), HasReason(Reason::kLimitReached));
  num_threads_left = 1;
  EXPECT_OK(CallVerb("Pull", connection));

  EXPECT_LT(num_threads_left, 1) << "it has asked for more";
  service.Stop();
}

}  // namespace
}  // namespace tensorkv
