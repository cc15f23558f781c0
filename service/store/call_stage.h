// Asks something of each call on its way into the store, and hears how it ends.

#ifndef TENSORKV_SERVICE_STORE_CALL_STAGE_H_
#define TENSORKV_SERVICE_STORE_CALL_STAGE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "contract/any_call.h"
#include "contract/method.h"
#include "contract/requests.h"
#include "google/protobuf/repeated_field.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// The keys that a request names, where the request has them: neither copied nor
// asked for one by one through a virtual function. Good as long as the request
// is.
class KeysView {
 public:
  template <typename Entry>
  explicit KeysView(const std::vector<Entry>& entries)
      : size_(entries.size()), stride_(sizeof(Entry)) {
    if (size_ == 0) return;
    const std::string* const first = &entries[0].key;
    first_ = reinterpret_cast<const char*>(first);
  }
  explicit KeysView(const google::protobuf::RepeatedPtrField<std::string>& keys)
      : first_(reinterpret_cast<const char*>(keys.data())),
        size_(static_cast<size_t>(keys.size())),
        stride_(sizeof(const std::string*)),
        has_pointers_(true) {}

  size_t size() const { return size_; }
  // REQUIRES: `index` is less than size().
  const std::string& operator[](size_t index) const {
    const char* const at = first_ + index * stride_;
    return has_pointers_ ? **reinterpret_cast<const std::string* const*>(at)
                         : *reinterpret_cast<const std::string*>(at);
  }

 private:
  const char* first_ = nullptr;
  size_t size_;
  size_t stride_;
  bool has_pointers_ = false;
};

// StagedCall is what stages are told of a call. It refers to the request and
// its context, and is good as long as they are.
struct StagedCall {
  template <typename Request>
  StagedCall(const Request& request, const Caller& by)
      : StagedCall(kMethodOf<Request>, "", by) {
    if constexpr (kHasNamespace<Request>) name_space = NamespaceIn(request);
    if constexpr (kNamesKeys<Request>) {
      // A share of a snapshot has keys of the time when it was taken.
      if (!ReadsShare(request)) keys.emplace(EntriesIn(request));
    }
    is_for_home = IsForHome(request);
    if constexpr (requires { request.publish_as; }) {
      publishes = request.publish_as.has_value();
    }
    if constexpr (std::is_same_v<Request, CreateSnapshotRequest>) {
      shares = &request.shares();
    }
    if constexpr (requires { request.worker->rank; }) {
      if (request.worker) rank = request.worker->rank;
    }
    if constexpr (requires { request.has_call_id(); }) {
      if (request.has_call_id()) id_message = &request.call_id();
    } else if constexpr (kHasCallId<Request>) {
      if (request.call_id) id = &*request.call_id;
    }
  }
  // Returns whether the call reads a server's share of a cluster's snapshot.
  template <typename Request>
  static bool ReadsShare(const Request& request) {
    if constexpr (requires { request.at->uid(); }) {
      return request.at && request.at->uid() != 0;
    } else if constexpr (requires { request.at().uid(); }) {
      return request.at().uid() != 0;
    } else {
      return false;
    }
  }
  // Returns whether the home of the namespace alone has the answer, as it alone
  // says what snapshots there are.
  template <typename Request>
  static bool IsForHome(const Request& request) {
    if constexpr (std::is_same_v<Request, CreateSnapshotRequest>) {
      return request.step() != CreateSnapshotRequest::PREPARE;
    } else if constexpr (std::is_same_v<Request, DeleteSnapshotRequest>) {
      return request.uids().empty();
    } else if constexpr (std::is_same_v<Request, DescribeSnapshotRequest> ||
                         std::is_same_v<Request, LeaseSnapshotRequest>) {
      return !ReadsShare(request);
    } else {
      return std::is_same_v<Request, ListSnapshotsRequest>;
    }
  }
  StagedCall(Method called, absl::string_view in, const Caller& by)
      : method(called), caller(by), name_space(in) {}

  // Returns the id by which the call is made once; nothing if it has none.
  std::optional<CallId> call_id() const {
    if (id != nullptr) return *id;
    if (id_message != nullptr) return CallIdOf(*id_message);
    return std::nullopt;
  }

  // The verb: rows are pushed and pulled by Push and Pull.
  const Method method;
  // Says that the call takes a snapshot with its change.
  bool publishes = false;
  const Caller& caller;
  // Is as the call has it; empty names the namespace "default", or none.
  absl::string_view name_space;
  // Nothing for a call that is about no keys of its own, or no present ones.
  std::optional<KeysView> keys;
  // Says that the home of the namespace alone has the answer.
  bool is_for_home = false;
  // The shares of which a snapshot is made; null if the call makes none.
  const google::protobuf::RepeatedPtrField<CreateSnapshotRequest::Share>*
      shares = nullptr;
  // That of the worker that pushes or pulls.
  std::optional<uint32_t> rank;
  // At most one is not null.
  const CallId* id = nullptr;
  const v1::CallId* id_message = nullptr;
};

// One thing that is asked of every call, whatever its verb: whether its caller
// may make it, whether its keys are here. CallDispatch runs all stages, in
// order in front of the store, and in reverse behind it. Thread-safe.
class CallStage {
 public:
  virtual ~CallStage() = default;

  // Checks that the call may be made, before the store hears of it. Keeps
  // nothing: a call that was admitted may come to nothing, and a stream is
  // asked about twice, when its manifest comes and when its call is made.
  // Errors: why the call is refused.
  virtual absl::Status Admit(const StagedCall& call) const = 0;

  // Returns whether Done is to be called for calls of that method.
  virtual bool HearsEndOf(Method method) const { return false; }
  // Hears how a call has ended that this stage has admitted, and that was made
  // or refused by a later stage. `call` has no keys, no rank and no id.
  virtual void Done(const StagedCall& call, const absl::Status& outcome) const {
  }
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_STAGE_H_
