#include "client/canceller.h"

#include <memory>
#include <thread>
#include <utility>

#include "gtest/gtest.h"

namespace tensorkv {
namespace {

TEST(CancellerTest, WaitsForTheCallsThatHaveBegun) {
  const auto canceller = std::make_shared<Canceller>();
  auto use = std::make_unique<Canceller::Use>(canceller);
  bool has_ended = false;

  std::thread caller([&, ending = std::move(use)]() mutable {
    while (!canceller->is_cancelled()) std::this_thread::yield();
    has_ended = true;
    ending.reset();
  });
  canceller->CancelAndWait();

  EXPECT_TRUE(has_ended);
  EXPECT_FALSE(Canceller::Use(canceller).may_begin());
  caller.join();
}

}  // namespace
}  // namespace tensorkv
