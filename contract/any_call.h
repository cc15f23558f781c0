// A unary call of the contract, whatever its method.

#ifndef TENSORKV_CONTRACT_ANY_CALL_H_
#define TENSORKV_CONTRACT_ANY_CALL_H_

#include "contract/method.h"
#include "contract/requests.h"

namespace tensorkv {

// The method that a type of requests calls, and what answers it.
template <typename Request>
struct CallOf;
#define TENSORKV_CALL_OF(name, ...)                    \
  template <>                                          \
  struct CallOf<name##Request> {                       \
    static constexpr Method kMethod = Method::k##name; \
    using Reply = name##Reply;                         \
  };
TENSORKV_UNARY_METHODS(TENSORKV_CALL_OF)
#undef TENSORKV_CALL_OF

template <typename Request>
inline constexpr Method kMethodOf = CallOf<Request>::kMethod;
template <typename Request>
using ReplyTo = typename CallOf<Request>::Reply;

// Refers to a request and to where its reply goes, both of which outlive it.
class AnyCall {
 public:
  template <typename Request>
  AnyCall(const Request& request, ReplyTo<Request>& reply)
      : method_(kMethodOf<Request>), request_(&request), reply_(&reply) {}

  Method method() const { return method_; }

  // What `visitor(request, reply)` returns, with the types of the method.
  template <typename Visitor>
  auto Visit(Visitor&& visitor) const {
    switch (method_) {
#define TENSORKV_CASE(name, ...)                                 \
  case Method::k##name:                                          \
    return visitor(*static_cast<const name##Request*>(request_), \
                   *static_cast<name##Reply*>(reply_));
      TENSORKV_UNARY_METHODS(TENSORKV_CASE)
#undef TENSORKV_CASE
      default:  // no stream has a request type of its own
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
