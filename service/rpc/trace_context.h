// The trace that a call is part of, as its caller tells it.

#ifndef TENSORKV_SERVICE_RPC_TRACE_CONTEXT_H_
#define TENSORKV_SERVICE_RPC_TRACE_CONTEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// The name of the header of W3C Trace Context.
inline constexpr char kTraceParentMetadata[] = "traceparent";

// Returns "TRACE-SPAN", both in hexadecimal, from the value of a `traceparent`;
// empty if that is malformed. Pure function, thread-safe.
std::string ParseTraceParent(absl::string_view value);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_TRACE_CONTEXT_H_
