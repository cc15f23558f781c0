// The part of protobuf's wire format that texts and messages within messages
// need: fields that begin with their length. It serves layers that do without
// protobuf.
//
// Pure functions, thread-safe.

#ifndef TENSORKV_CONTRACT_LENGTH_DELIMITED_H_
#define TENSORKV_CONTRACT_LENGTH_DELIMITED_H_

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"

namespace tensorkv {

// Appends field `number`, from 1 to 15, to a message.
void AppendField(int number, absl::string_view bytes, std::string& message);

// Calls `visit` for every field that begins with a length, in their order, and
// passes over varints. False if the message is malformed or has fields of
// another kind; fields before the fault have been visited then.
bool ForEachField(
    absl::string_view message,
    absl::FunctionRef<void(int number, absl::string_view bytes)> visit);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_LENGTH_DELIMITED_H_
