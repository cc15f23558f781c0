// Declares what import and export have in common.

#ifndef TENSORKV_CLIENT_CLI_SAFETENSORS_CALLS_H_
#define TENSORKV_CLIENT_CLI_SAFETENSORS_CALLS_H_

#include <cstddef>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/cli/invocation.h"
#include "tensor/safetensors.h"

namespace tensorkv {

// Returns an InvalidArgument that names the file.
absl::Status FileError(const std::string& path, absl::string_view problem);

// Calls `make_call` with all entries, some at a time, until it fails.
absl::Status InCalls(
    absl::Span<const SafetensorsEntry> entries,
    absl::FunctionRef<absl::Status(absl::Span<const SafetensorsEntry>)>
        make_call);

// Prints how many keys were "imported", or "exported".
void PrintCount(absl::string_view verb, size_t num_keys,
                Invocation& invocation);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_SAFETENSORS_CALLS_H_
