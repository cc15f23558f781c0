// A unary call of the contract, whatever its method.

#ifndef TENSORKV_CONTRACT_ANY_CALL_H_
#define TENSORKV_CONTRACT_ANY_CALL_H_

#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/method.h"
#include "contract/requests.h"

namespace tensorkv {

// CallTypes says of a type of requests which method they call, whether they may
// be repeated, where a caller needs its right, and which type answers them.
template <typename Request>
struct CallTypes;
#define TENSORKV_CALL_OF(name, _, repeat, right, scope) \
  template <>                                           \
  struct CallTypes<name##Request> {                     \
    static constexpr Method kMethod = Method::k##name;  \
    static constexpr Repeat kRepeat = Repeat::repeat;   \
    static constexpr Scope kScope = Scope::scope;       \
    using Reply = name##Reply;                          \
  };
TENSORKV_UNARY_METHODS(TENSORKV_CALL_OF)
#undef TENSORKV_CALL_OF

template <typename Request>
inline constexpr Method kMethodOf = CallTypes<Request>::kMethod;
template <typename Request>
using ReplyTo = typename CallTypes<Request>::Reply;
// True for replies that have no fields.
template <typename Reply>
inline constexpr bool kIsEmptyReply = false;
#define TENSORKV_IS_EMPTY(name, ...) \
  template <>                        \
  inline constexpr bool kIsEmptyReply<name##Reply> = true;
TENSORKV_SILENT_METHODS(TENSORKV_IS_EMPTY)
#undef TENSORKV_IS_EMPTY

// OutcomeOfCall is the reply or an error; it is a status alone where the reply
// has no fields.
template <typename Request>
using OutcomeOfCall =
    std::conditional_t<kIsEmptyReply<ReplyTo<Request>>, absl::Status,
                       absl::StatusOr<ReplyTo<Request>>>;

// These are true for the requests of TENSORKV_NAMESPACE_METHODS, of
// TENSORKV_SNAPSHOT_METHODS among these, of TENSORKV_CHECKPOINT_METHODS, and of
// TENSORKV_SERVER_METHODS.
template <typename Request>
inline constexpr bool kIsOfNamespace = false;
template <typename Request>
inline constexpr bool kIsOfSnapshots = false;
template <typename Request>
inline constexpr bool kIsOfCheckpoints = false;
template <typename Request>
inline constexpr bool kIsOfServer = false;
#define TENSORKV_IS_OF_NAMESPACE(name, ...) \
  template <>                               \
  inline constexpr bool kIsOfNamespace<name##Request> = true;
#define TENSORKV_IS_OF_SNAPSHOTS(name, ...) \
  template <>                               \
  inline constexpr bool kIsOfSnapshots<name##Request> = true;
#define TENSORKV_IS_OF_CHECKPOINTS(name, ...) \
  template <>                                 \
  inline constexpr bool kIsOfCheckpoints<name##Request> = true;
#define TENSORKV_IS_OF_SERVER(name, ...) \
  template <>                            \
  inline constexpr bool kIsOfServer<name##Request> = true;
TENSORKV_NAMESPACE_METHODS(TENSORKV_IS_OF_NAMESPACE)
TENSORKV_SNAPSHOT_METHODS(TENSORKV_IS_OF_SNAPSHOTS)
TENSORKV_CHECKPOINT_METHODS(TENSORKV_IS_OF_CHECKPOINTS)
TENSORKV_SERVER_METHODS(TENSORKV_IS_OF_SERVER)
#undef TENSORKV_IS_OF_NAMESPACE
#undef TENSORKV_IS_OF_SNAPSHOTS
#undef TENSORKV_IS_OF_CHECKPOINTS
#undef TENSORKV_IS_OF_SERVER

// True for DescribeServerRequest and DescribeClusterRequest, which ask what a
// server is: any incarnation of the server may answer them.
template <typename Request>
inline constexpr bool kAsksWhatAServerIs =
    kMethodOf<Request> == Method::kDescribeServer ||
    kMethodOf<Request> == Method::kDescribeCluster;

// An AnyCall refers to a request of any of TENSORKV_UNARY_METHODS and to where
// its reply goes. Both outlive the AnyCall.
class AnyCall {
 public:
  template <typename Request>
  AnyCall(const Request& request, ReplyTo<Request>& reply)
      : method_(kMethodOf<Request>), request_(&request), reply_(&reply) {}

  Method method() const { return method_; }

  // Returns what `visitor(request, reply)` returns, with the types of the
  // method. The type is the same for all methods. It is named, for where it is
  // deduced clang 19 leaves out templates that the visitor uses.
  template <typename Visitor>
  std::invoke_result_t<Visitor, const PushRequest&, PushReply&> Visit(
      Visitor&& visitor) const {
    switch (method_) {
#define TENSORKV_CASE(name, ...)                                 \
  case Method::k##name:                                          \
    return visitor(*static_cast<const name##Request*>(request_), \
                   *static_cast<name##Reply*>(reply_));
      TENSORKV_UNARY_METHODS(TENSORKV_CASE)
#undef TENSORKV_CASE
      default:  // streams, and calls of servers to each other, make no AnyCall
        __builtin_unreachable();
    }
  }

 private:
  const Method method_;
  const void* const request_;
  void* const reply_;
};

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_ANY_CALL_H_
