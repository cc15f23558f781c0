// The one way into a store for calls from outside.

#ifndef TENSORKV_SERVICE_STORE_CALL_DISPATCH_H_
#define TENSORKV_SERVICE_STORE_CALL_DISPATCH_H_

#include <array>
#include <cstddef>
#include <functional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "contract/method.h"
#include "service/store/call_stage.h"
#include "service/store/staging.h"
#include "service/store/tensor_store.h"

namespace tensorkv {

// Makes calls by the type of their request, and has each pass a list of stages:
// in order before the store hears of it, in reverse when it has ended. Unary
// calls and streams come here alike, whatever carries them. Thread-safe.
class CallDispatch {
 public:
  // Parts holds what calls go to; all of it outlives them.
  struct Parts {
    TensorStore* store = nullptr;
    NamespaceAdmin* namespaces = nullptr;
    // Gives memory to calls that were admitted.
    Staging* staging = nullptr;
    std::vector<const CallStage*> stages;
    // Returns whether ListNamespaces shows that caller the namespace; null: it
    // shows all.
    std::function<bool(absl::string_view name, const Caller& caller)> shows;
    // Answers List in the place of the store; may be null.
    std::function<absl::StatusOr<ListReply>(const ListRequest& request,
                                            const CallContext& context)>
        list;
  };

  explicit CallDispatch(Parts parts);
  CallDispatch(const CallDispatch&) = delete;
  CallDispatch& operator=(const CallDispatch&) = delete;

  Staging& staging() const { return *parts_.staging; }

  // A request that every stage has admitted: Admit alone makes one. Whoever has
  // it may fill in elements, and nothing else.
  template <typename Request>
  class Admitted {
   public:
    // Rows are pushed and pulled as tensors are.
    template <typename OfRows>
    requires(std::is_base_of_v<Request, OfRows>&& kIsOfRows<OfRows>)
        // NOLINTNEXTLINE(google-explicit-constructor)
        Admitted(Admitted<OfRows> other)
        : request_(std::move(*other)) {}

    Request& operator*() { return request_; }
    Request* operator->() { return &request_; }

   private:
    friend class CallDispatch;
    explicit Admitted(Request&& request) : request_(std::move(request)) {}

    Request request_;
  };

  // Notes what the call is about in its caller's record, for the log, and has
  // every stage admit it. Errors: the first refusal, of which the stages before
  // hear by Done.
  template <typename Request>
  absl::StatusOr<Admitted<Request>> Admit(Request request,
                                          const Caller& caller) const {
    RETURN_IF_ERROR(AdmitCall(StagedCall(request, caller)));
    return Admitted<Request>(std::move(request));
  }

  // Makes a call that was admitted.
  template <typename Request>
  void MakeAdmitted(Admitted<Request> admitted, CallContext context,
                    ReplyCallback<ReplyTo<Request>> done) const {
    if (ends_are_heard_[static_cast<size_t>(kMethodOf<Request>)]) {
      done = ToldOfEnd<ReplyTo<Request>>(StagedCall(*admitted, context.caller),
                                         std::move(done));
    }
    Start(std::move(*admitted), std::move(context), std::move(done));
  }

  // Admits the call and makes it.
  template <typename Request>
  void Make(Request request, CallContext context,
            ReplyCallback<ReplyTo<Request>> done) const {
    auto admitted = Admit(std::move(request), context.caller);
    if (!admitted.ok()) return std::move(done)(admitted.status());
    MakeAdmitted(*std::move(admitted), std::move(context), std::move(done));
  }

  // Makes the call, and waits for its reply on this thread.
  template <typename Request>
  absl::StatusOr<ReplyTo<Request>> MakeAndWait(Request request,
                                               CallContext context = {}) const {
    using Reply = ReplyTo<Request>;
    return Await<Reply>([&](ReplyCallback<Reply> done) {
      Make(std::move(request), std::move(context), std::move(done));
    });
  }

  // Admits a call whose tensors have no data yet, and has the store check it as
  // Staging says. Errors: those of both.
  template <typename Request>
  absl::Status CheckManifest(const Request& request,
                             const CallContext& context) const {
    RETURN_IF_ERROR(AdmitCall(StagedCall(request, context.caller)));
    if constexpr (std::is_same_v<Request, InitRequest>) {
      return staging().CheckInit(request, context);
    } else if constexpr (std::is_same_v<Request, SetStateRequest>) {
      return staging().CheckSetState(request, context);
    } else if constexpr (std::is_base_of_v<PushRequest, Request>) {
      return staging().CheckPush(request, context);
    }
    return absl::OkStatus();
  }

  // Returns the namespaces as NamespaceAdmin does, but for those that are not
  // shown to the caller. No stage is asked: the call is about none of them.
  absl::StatusOr<std::vector<NamespaceStatus>> ListNamespaces(
      absl::string_view after, size_t max_namespaces,
      const CallContext& context) const;

 private:
  // Start a call by the verb of its request.
#define TENSORKV_START(part, name)                            \
  void Start(name##Request&& request, CallContext&& context,  \
             ReplyCallback<name##Reply>&& done) const {       \
    parts_.part->name(std::move(request), std::move(context), \
                      std::move(done));                       \
  }
#define TENSORKV_START_ADMIN(name, ...) TENSORKV_START(namespaces, name)
  TENSORKV_START(store, Init)
  TENSORKV_START(store, Push)
  TENSORKV_START(store, Pull)
  TENSORKV_START(store, PushPull)
  TENSORKV_START(store, SetState)
  TENSORKV_START(store, GetState)
  TENSORKV_START(store, Delete)
  TENSORKV_START(store, Stat)
  TENSORKV_START(namespaces, Barrier)
  TENSORKV_ADMIN_METHODS(TENSORKV_START_ADMIN)
#undef TENSORKV_START_ADMIN
#undef TENSORKV_START
  void Start(const ListRequest& request, const CallContext& context,
             ReplyCallback<ListReply> done) const {
    std::move(done)(parts_.list ? parts_.list(request, context)
                                : parts_.store->List(request, context));
  }
  void Start(const DescribeNamespaceRequest& request,
             const CallContext& context,
             ReplyCallback<DescribeNamespaceReply> done) const {
    std::move(done)(parts_.namespaces->DescribeNamespace(request, context));
  }

  absl::Status AdmitCall(const StagedCall& call) const;
  // Tells the first `num_stages` how an admitted call has ended, in reverse.
  void TellEnd(const StagedCall& call, const absl::Status& outcome,
               size_t num_stages) const;

  // Returns a callback that has the stages hear of the end, then calls `done`.
  template <typename Reply>
  ReplyCallback<Reply> ToldOfEnd(const StagedCall& call,
                                 ReplyCallback<Reply> done) const {
    return [this, method = call.method, caller = call.caller,
            name_space = std::string(call.name_space),
            done = std::move(done)](absl::StatusOr<Reply> reply) mutable {
      TellEnd(StagedCall(method, name_space, caller), reply.status(),
              parts_.stages.size());
      std::move(done)(std::move(reply));
    };
  }

  const Parts parts_;
  // True for methods of which a stage hears how they end.
  std::array<bool, kNumMethods> ends_are_heard_ = {};
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_CALL_DISPATCH_H_
