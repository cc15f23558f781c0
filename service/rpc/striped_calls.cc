#include "service/rpc/striped_calls.h"

#include <utility>

namespace tensorkv {

std::shared_ptr<StripedCall> StripedCalls::New() {
  return std::make_shared<StripedCall>(1, stream_timeout_, &alarms_);
}

std::shared_ptr<StripedCall> StripedCalls::Find(Method method,
                                                const Caller& caller,
                                                const Stripe& stripe) {
  const Key key(method, caller.name, stripe.group);
  MutexLock lock(&mutex_);
  std::weak_ptr<StripedCall>& known = calls_[key];
  if (auto call = known.lock()) return call;
  std::shared_ptr<StripedCall> call(
      new StripedCall(stripe.count, stream_timeout_, &alarms_),
      [this, key](StripedCall* ended) {
        delete ended;
        Forget(key);
      });
  known = call;
  return call;
}

void StripedCalls::Forget(const Key& key) {
  MutexLock lock(&mutex_);
  const auto entry = calls_.find(key);
  // Another call of that group may have come meanwhile.
  if (entry != calls_.end() && entry->second.expired()) calls_.erase(entry);
}

size_t StripedCalls::size() const {
  MutexLock lock(&mutex_);
  return calls_.size();
}

}  // namespace tensorkv
