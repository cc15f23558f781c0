// Translates between snapshots of a store and the manifest of a checkpoint.

#ifndef TENSORKV_SERVICE_CHECKPOINT_MANIFEST_CODEC_H_
#define TENSORKV_SERVICE_CHECKPOINT_MANIFEST_CODEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "service/store/snapshot.h"
#include "tensorkv/v1/manifest.pb.h"

namespace tensorkv {

// Without its keys, files and contributors.
void ToProto(const NamespaceSnapshot& snapshot, v1::NamespaceManifest* proto);
// Errors: DataLoss.
absl::StatusOr<NamespaceSnapshot> FromProto(const v1::NamespaceManifest& proto);

// Adds a key, without its tensors, and the contributors that it names.
// `last_contributors` are those that were added last; most keys have the same.
v1::SavedKey* AddKey(const KeySnapshot& key,
                     RefPtr<const Contributors>& last_contributors,
                     v1::NamespaceManifest* proto);
// Without its tensors, of which the first is the value, and no other is.
// `contributors` are those of the manifest. Errors: DataLoss.
absl::StatusOr<KeySnapshot> FromProto(
    const v1::SavedKey& proto,
    const std::vector<RefPtr<const Contributors>>& contributors);

std::vector<RefPtr<const Contributors>> ContributorsOf(
    const v1::NamespaceManifest& proto);

// Returns how many bytes the tensor's elements take. Errors: DataLoss.
absl::StatusOr<uint64_t> SizeBytesOf(const v1::SavedTensor& proto);

// Returns the name of a file of tensors: the number of its namespace, one of
// its own there, and what it has.
std::string TensorFileName(int name_space, uint32_t number,
                           absl::string_view kind);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_MANIFEST_CODEC_H_
