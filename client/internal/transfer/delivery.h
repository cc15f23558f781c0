// Puts values into memory of the caller.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_DELIVERY_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_DELIVERY_H_

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "client/destination.h"
#include "contract/requests.h"

namespace tensorkv {

// Checks that there are `num_entries` destinations, and that the memory of
// each, if it has any, is of the size that its dtype and shape ask for. Errors:
// InvalidArgument.
absl::Status CheckDestinations(absl::Span<const Destination> destinations,
                               size_t num_entries);

// Checks that the values of a PushPull can fit where they are to go, as far as
// its request tells: a key has the shape that is pushed to it, floats stay
// floats, and other dtypes stay what they are. What a key of floats is stored
// as, only the reply tells. Errors: InvalidArgument, which names the key.
absl::Status CheckContributions(const PushPullRequest& request,
                                absl::Span<const Destination> destinations);

// Gives the tensors of `values`, which have no memory, that of their
// destinations, but for what has changed of a value, which goes nowhere. Does
// nothing unless dtype and shape of every other value fit.
// REQUIRES: destinations that CheckDestinations takes for some call.
void PlaceInto(absl::Span<const Destination> destinations,
               absl::Span<Value> values);

// Moves the tensors of `values` into their destinations, if there are any:
// copies the elements of those that are not there already. What has changed of
// a value stays where it is.
// Errors: InvalidArgument where a dtype or shape is another, which names the
// key; then nothing is copied.
absl::Status Deliver(absl::Span<const Destination> destinations,
                     absl::FunctionRef<absl::string_view(size_t)> key_of,
                     std::vector<Value>& values);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_DELIVERY_H_
