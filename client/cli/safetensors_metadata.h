// Declares what a .safetensors file says of itself: an object of JSON whose
// members are strings, as {"format":"pt"}.

#ifndef TENSORKV_CLIENT_CLI_SAFETENSORS_METADATA_H_
#define TENSORKV_CLIENT_CLI_SAFETENSORS_METADATA_H_

#include <string>

#include "absl/strings/string_view.h"

namespace tensorkv {

// Returns whether the text is such an object.
bool IsSafetensorsMetadata(absl::string_view text);

// Returns what the file of a header that ParseSafetensorsHeader takes says of
// itself, as JSON, or "".
std::string SafetensorsMetadata(absl::string_view header);

// Returns the header of the same file that says this of itself, if it is not
// empty. `header` is one of SafetensorsHeader.
// REQUIRES: IsSafetensorsMetadata(metadata), unless it is empty.
std::string WithSafetensorsMetadata(std::string header,
                                    absl::string_view metadata);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_SAFETENSORS_METADATA_H_
