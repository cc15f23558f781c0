// A checkpoint on the disk.

#ifndef TENSORKV_SERVICE_CHECKPOINT_SAVED_CHECKPOINT_H_
#define TENSORKV_SERVICE_CHECKPOINT_SAVED_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/requests.h"
#include "service/store/cancellation.h"
#include "service/store/snapshot.h"
#include "tensorkv/v1/manifest.pb.h"

namespace tensorkv {

// Errors: Cancelled, if the call is cancelled. `cancellation` may be null.
absl::Status CheckNotCancelled(Cancellation* cancellation);

// RestoreSelection says what of a checkpoint is to be restored, and how.
struct RestoreSelection {
  // Names the namespaces to restore; empty: all that the checkpoint has.
  std::vector<std::string> namespaces;
  // The name by which the one namespace is restored; empty: its own.
  std::string as_namespace;
  // The uid that each of the restored namespaces gets, which are others than
  // those that were saved then; 0: one that the store draws for each. Without
  // it they have their own.
  std::optional<uint64_t> uid;
  // May be null.
  Cancellation* cancellation = nullptr;
  // Hears how many bytes of tensors have been restored since the last time; may
  // be null.
  std::function<void(uint64_t)> on_bytes;
};

// Reads a checkpoint that was written. Immutable, thread-safe; its files must
// stay. All functions that read block, and compare what they read with its
// digest before they use it: DataLoss names the file, and the tensor if it is
// one.
class SavedCheckpoint {
 public:
  // Reads the file CHECKPOINT of the directory, and nothing else. Errors:
  // NotFound · DataLoss.
  static absl::StatusOr<SavedCheckpoint> Open(const std::string& directory);

  const CheckpointStatus& status() const { return manifest_.status(); }
  // Returns whether it has all namespaces that its server had.
  bool is_whole() const { return !manifest_.partial(); }
  // Returns how many checkpoints before this one the last whole-written one is;
  // 0: this one shares no files with a former one.
  uint32_t steps_from_full() const { return manifest_.steps_from_full(); }
  const std::string& directory() const { return directory_; }

  // Reads the manifest of a namespace. Errors: NotFound (NAMESPACE_NOT_FOUND) ·
  // DataLoss.
  absl::StatusOr<v1::NamespaceManifest> ManifestOf(
      const std::string& name_space) const;

  // Reads all of the checkpoint, and compares it with its digests.
  // `cancellation` may be null. Errors: DataLoss · Cancelled.
  absl::Status Verify(Cancellation* cancellation) const;
  // Gives `to` what is selected; the caller commits it. Errors: NotFound
  // (NAMESPACE_NOT_FOUND: the checkpoint does not have it) · InvalidArgument
  // (as_namespace with other than one namespace, a uid by which one was saved)
  // · DataLoss · Cancelled · those of Restoration.
  absl::Status RestoreTo(Restoration& to,
                         const RestoreSelection& selection = {}) const;

 private:
  using KeysVisitor = absl::FunctionRef<absl::Status(std::vector<KeySnapshot>)>;
  using TensorAllocator = std::function<absl::StatusOr<Tensor>(DType, Shape)>;
  class KeyReader;

  SavedCheckpoint(std::string directory, v1::CheckpointManifest manifest)
      : directory_(std::move(directory)), manifest_(std::move(manifest)) {}

  std::string PathOf(const std::string& file) const {
    return directory_ + "/" + file;
  }
  absl::Status ReadManifest(const v1::FileDigest& file,
                            v1::NamespaceManifest& manifest) const;
  // Verifies the headers of the files of tensors, for readers of these without
  // the manifest.
  absl::Status VerifyHeaders(const v1::NamespaceManifest& manifest) const;
  // Returns the places of the selected namespaces among those of the
  // checkpoint, in order, each once. Errors: as RestoreTo has them.
  absl::StatusOr<std::vector<int>> Select(
      const RestoreSelection& selection) const;
  // Passes the keys on, some at a time, in memory that `allocate` gives. Where
  // it has no more, it is asked again when those before have been passed on.
  absl::Status ReadKeys(const v1::NamespaceManifest& manifest,
                        const TensorAllocator& allocate,
                        KeysVisitor visit) const;

  std::string directory_;
  v1::CheckpointManifest manifest_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_SAVED_CHECKPOINT_H_
