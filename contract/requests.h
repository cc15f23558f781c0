// The contract's requests and replies as C++ values, for server and client
// alike. What they mean is written in proto/tensorkv/v1/; each struct mirrors
// the message of its name, a NameReply the NameResponse. Plain values: no
// thread safety, no checks.
//
// Requests about a namespace have these in common: an empty `name_space` is
// "default"; a `namespace_uid` of 0 takes whatever namespace has that name.

#ifndef TENSORKV_CONTRACT_REQUESTS_H_
#define TENSORKV_CONTRACT_REQUESTS_H_

#include "contract/call_fields.h"
#include "contract/data_requests.h"
#include "contract/messages.h"
#include "contract/namespace_config.h"
#include "contract/request_fields.h"
#include "contract/stream_requests.h"

#endif  // TENSORKV_CONTRACT_REQUESTS_H_
