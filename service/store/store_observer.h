// Tells whoever keeps a store's log what happens in it.

#ifndef TENSORKV_SERVICE_STORE_STORE_OBSERVER_H_
#define TENSORKV_SERVICE_STORE_STORE_OBSERVER_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

enum class StoreEvent : uint8_t {
  kNamespaceCreated,
  kNamespaceUpdated,
  kNamespaceDeleted,
  kRuleChanged,
  kWorkerJoined,
  kWorkerLeft,
  kWorkerLost,
  kRoundFailed,
  kNumEvents,  // is no event
};

// Hears of events when they have happened. Thread-safe; must not block, and
// must not call the store. It is called with no lock of the store held.
class StoreObserver {
 public:
  virtual ~StoreObserver() = default;

  // Hears of an event. `detail` says to whom it happened and why, in words for
  // an operator.
  virtual void Report(StoreEvent event, absl::string_view name_space,
                      absl::string_view detail) = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_STORE_OBSERVER_H_
