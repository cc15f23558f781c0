// The trace that a call is part of, as its caller tells it.

#ifndef TENSORKV_SERVICE_RPC_TRACE_CONTEXT_H_
#define TENSORKV_SERVICE_RPC_TRACE_CONTEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// The header of W3C Trace Context.
inline constexpr char kTraceParentMetadata[] = "traceparent";

// "TRACE-SPAN", both in hexadecimal, out of the value of a `traceparent`; empty
// if it is none. Pure function, thread-safe.
std::string ParseTraceParent(absl::string_view value);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_TRACE_CONTEXT_H_
