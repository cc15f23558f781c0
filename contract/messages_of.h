// Names the messages of the generated code that carry a unary call:
// MessagesOf<PushRequest> has v1::PushRequest and v1::PushResponse.

#ifndef TENSORKV_CONTRACT_MESSAGES_OF_H_
#define TENSORKV_CONTRACT_MESSAGES_OF_H_

#include "contract/method.h"
#include "contract/requests.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {

template <typename Request>
struct MessagesOf;
#define TENSORKV_MESSAGES_OF(name, ...)  \
  template <>                            \
  struct MessagesOf<name##Request> {     \
    using Request = v1::name##Request;   \
    using Response = v1::name##Response; \
  };
TENSORKV_UNARY_METHODS(TENSORKV_MESSAGES_OF)
#undef TENSORKV_MESSAGES_OF

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_MESSAGES_OF_H_
