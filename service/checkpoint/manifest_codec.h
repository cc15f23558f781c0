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

// Sets `proto` to the namespace, without its keys, files and contributors.
void ToProto(const NamespaceSnapshot& snapshot, v1::NamespaceManifest* proto);
// Returns the namespace, without its keys. Errors: DataLoss.
absl::StatusOr<NamespaceSnapshot> FromProto(const v1::NamespaceManifest& proto);

// Adds a key to `proto`, without its tensors, and the contributors that it
// names, unless they are `last_contributors`; sets that to those that were
// added last. Most keys have the same. Returns the key's entry.
v1::SavedKey* AddKey(const KeySnapshot& key,
                     RefPtr<const Contributors>& last_contributors,
                     v1::NamespaceManifest* proto);
// Returns the key, without its tensors. Checks that the first tensor of `proto`
// is the value, and no other is. `contributors` are those of the manifest
// (ContributorsOf). Errors: DataLoss.
absl::StatusOr<KeySnapshot> FromProto(
    const v1::SavedKey& proto,
    const std::vector<RefPtr<const Contributors>>& contributors);

// Returns the contributors of the manifest, by their index there.
std::vector<RefPtr<const Contributors>> ContributorsOf(
    const v1::NamespaceManifest& proto);

// Returns how many bytes the tensor's elements take. Errors: DataLoss.
absl::StatusOr<uint64_t> SizeBytesOf(const v1::SavedTensor& proto);

// Returns the name of a file of tensors: the number of its namespace in the
// checkpoint, the file's number there, and `kind`, which says what it has.
std::string TensorFileName(int name_space, uint32_t number,
                           absl::string_view kind);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_MANIFEST_CODEC_H_
