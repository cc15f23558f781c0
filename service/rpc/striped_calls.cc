#include "service/rpc/striped_calls.h"

namespace tensorkv {

std::shared_ptr<StripedCall> StripedCalls::New() {
  return std::make_shared<StripedCall>(1, stream_timeout_, &alarms_);
}

std::shared_ptr<StripedCall> StripedCalls::FindOrAdd(Method method,
                                                     const Caller& caller,
                                                     const Stripe& stripe) {
  const Key key(method, caller.name, stripe.group);
  MutexLock lock(&known_->mutex);
  std::weak_ptr<StripedCall>& entry = known_->calls[key];
  if (auto call = entry.lock()) return call;
  std::shared_ptr<StripedCall> call(
      new StripedCall(stripe.count, stream_timeout_, &alarms_),
      [known = known_, key](StripedCall* ended) {
        delete ended;
        known->Forget(key);
      });
  entry = call;
  return call;
}

void StripedCalls::Known::Forget(const Key& key) {
  MutexLock lock(&mutex);
  const auto entry = calls.find(key);
  // Another call of that group may have come meanwhile.
  if (entry != calls.end() && entry->second.expired()) calls.erase(entry);
}

size_t StripedCalls::size() const {
  MutexLock lock(&known_->mutex);
  return known_->calls.size();
}

}  // namespace tensorkv
