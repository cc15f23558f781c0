// Reads which keys of a namespace are in slices.

#ifndef TENSORKV_CLIENT_CLUSTER_READ_LAYOUTS_H_
#define TENSORKV_CLIENT_CLUSTER_READ_LAYOUTS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/cluster/split_layout.h"
#include "client/internal/calls/task.h"
#include "contract/requests.h"

namespace tensorkv {

// Makes a List.
using Lister =
    absl::FunctionRef<Task<absl::StatusOr<ListReply>>(const ListRequest&)>;

// Returns the layouts of the keys of the namespace, or of the snapshot, that
// `request` names, which the names of their first slices tell; null where there
// is no such namespace. Errors: those of `list`.
Task<absl::StatusOr<SplitLayoutsPtr>> ReadLayouts(ListRequest request,
                                                  Lister list);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLUSTER_READ_LAYOUTS_H_
