// The calls whose stripes are arriving.

#ifndef TENSORKV_SERVICE_RPC_STRIPED_CALLS_H_
#define TENSORKV_SERVICE_RPC_STRIPED_CALLS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "base/alarms.h"
#include "base/mutex.h"
#include "contract/method.h"
#include "contract/requests.h"
#include "service/rpc/striped_call.h"

namespace tensorkv {

// Brings the stripes of one call together by the group that they name. Holds no
// call: a call lives as long as a stripe has it, which may be longer than this
// object does, if the call has ended. Thread-safe.
class StripedCalls {
 public:
  // `alarms` is there until the calls have ended.
  StripedCalls(absl::Duration stream_timeout, Alarms* alarms)
      : stream_timeout_(stream_timeout), alarms_(*alarms) {}

  // Returns a new call of one stream.
  std::shared_ptr<StripedCall> New();

  // Returns the caller's call of that method whose group `stripe` names: the
  // one that another stripe has, or a new one.
  std::shared_ptr<StripedCall> FindOrAdd(Method method, const Caller& caller,
                                         const Stripe& stripe);

  // Returns how many calls of several stripes are alive.
  size_t size() const;

 private:
  using Key = std::tuple<Method, std::string, uint64_t>;
  // Calls forget themselves here when they go.
  struct Known {
    void Forget(const Key& key);

    Mutex mutex;
    std::map<Key, std::weak_ptr<StripedCall>> calls ABSL_GUARDED_BY(mutex);
  };

  const absl::Duration stream_timeout_;
  Alarms& alarms_;
  const std::shared_ptr<Known> known_ = std::make_shared<Known>();
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_STRIPED_CALLS_H_
