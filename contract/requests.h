// The contract's requests and replies as C++ values, for server and client
// alike: NameRequest and NameReply for each method. What they mean is written
// in proto/tensorkv/v1/. Calls without tensors have the generated messages,
// calls with tensors a struct that mirrors the message of its name. Plain
// values: no thread safety, no checks.
//
// Requests about a namespace have these in common: an empty name of the
// namespace is "default"; a uid of 0 takes whatever namespace has that name.

#ifndef TENSORKV_CONTRACT_REQUESTS_H_
#define TENSORKV_CONTRACT_REQUESTS_H_

#include "contract/call_fields.h"
#include "contract/data_requests.h"
#include "contract/messages.h"
#include "contract/namespace_config.h"
#include "contract/request_fields.h"
#include "contract/stream_requests.h"
#include "contract/tables.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv {

// Names the messages that carry a unary call: MessagesOf<PushRequest> has
// v1::PushRequest and v1::PushResponse.
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

#endif  // TENSORKV_CONTRACT_REQUESTS_H_
