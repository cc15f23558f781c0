#include "client/retry_loop.h"

#include <chrono>
#include <thread>

#include "absl/random/random.h"
#include "client/steady_now.h"

namespace tensorkv {

RetryEnvironment SystemRetryEnvironment() {
  return {
      .now = SteadyNow,
      .sleep =
          [](absl::Duration pause) {
            std::this_thread::sleep_for(absl::ToChronoNanoseconds(pause));
          },
      .random =
          [] {
            absl::BitGen generator;
            return absl::Uniform(generator, 0.0, 1.0);
          },
  };
}

}  // namespace tensorkv
