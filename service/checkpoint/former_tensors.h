// Shares files with the checkpoint before.

#ifndef TENSORKV_SERVICE_CHECKPOINT_FORMER_TENSORS_H_
#define TENSORKV_SERVICE_CHECKPOINT_FORMER_TENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "service/store/snapshot.h"
#include "tensor/tensor.h"
#include "tensorkv/v1/manifest.pb.h"

namespace tensorkv {

// The tensors of a namespace in a former checkpoint. The next checkpoint shares
// those that have not changed, by hard links to their files. Used by one
// thread.
//
// No version of a key ever names two values, so a value has not changed if its
// key's version has not. States may be set without a new version: they must
// also have the digest that they had.
class FormerTensors {
 public:
  // Links the files of `former`, a namespace of the checkpoint in the directory
  // `from`, into the directory `to`, by names of the namespace number
  // `name_space`. Leaves a file out if `former` used less than half of its
  // bytes, so that bytes that are not needed go at last; if it was changed
  // since it was written; and if it cannot be linked, whatever the reason.
  FormerTensors(const std::string& from, v1::NamespaceManifest former,
                const std::string& to, int name_space);
  FormerTensors(const FormerTensors&) = delete;
  FormerTensors& operator=(const FormerTensors&) = delete;

  // Returns how many files were linked: they have the numbers from 0 on.
  uint32_t num_files() const { return num_files_; }

  // Returns whether the tensor, the key's state of that name or, if `state` is
  // empty, its value, has not changed and its file is linked. If so, sets
  // `saved`, an entry of `manifest`, to where it is; the first tensor of a file
  // adds that file to `manifest`.
  bool TakeOver(const KeySnapshot& key, absl::string_view state,
                const Tensor& tensor, v1::NamespaceManifest* manifest,
                v1::SavedTensor* saved);

  // Removes the linked files from which no tensor was taken over. Returns the
  // bytes of the others.
  uint64_t RemoveUnused() const;

 private:
  struct File {
    // Empty if it is not linked.
    std::string name;
    // Its place in the new manifest; -1 if it has none.
    int place = -1;
  };

  // Returns the former tensor; null if there is none, or the key's version is
  // another.
  const v1::SavedTensor* Find(const KeySnapshot& key,
                              absl::string_view state) const;

  const v1::NamespaceManifest former_;
  const std::string directory_;
  uint32_t num_files_ = 0;
  // The files of former_, by number.
  std::vector<File> files_;
  absl::flat_hash_map<absl::string_view, const v1::SavedKey*> keys_;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_FORMER_TENSORS_H_
