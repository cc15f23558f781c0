// Takes over files of the checkpoint before.

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

// The tensors of a namespace in a former checkpoint. Those that have not
// changed are in the next one too, by hard links to their files. Used by one
// thread.
//
// No version of a key ever names two values, so a value has not changed if its
// key's version has not. States may be set without a new version: they must
// also have the digest that they had.
class FormerTensors {
 public:
  // Links files of the former checkpoint, in the directory `from`, into `to`,
  // where their names are those of the namespace of that number. A file is left
  // out if less than half of its tensors' bytes belonged to that checkpoint, so
  // that what is not wanted any more goes; if it is not as it was written; and
  // if it cannot be linked, whatever the reason.
  FormerTensors(const std::string& from, v1::NamespaceManifest former,
                const std::string& to, int name_space);
  FormerTensors(const FormerTensors&) = delete;
  FormerTensors& operator=(const FormerTensors&) = delete;

  // Returns how many have been linked: their numbers begin with 0.
  uint32_t num_files() const { return num_files_; }

  // If this state of the key, or its value if `state` is empty, has not changed
  // and its file is linked: tells `saved`, a tensor of `manifest`, where it is.
  // The first one of a file adds that file to `manifest`.
  bool TakeOver(const KeySnapshot& key, absl::string_view state,
                const Tensor& tensor, v1::NamespaceManifest* manifest,
                v1::SavedTensor* saved);

  // Removes the links of which nothing was taken over. Returns what the others
  // take.
  uint64_t RemoveUnused() const;

 private:
  struct File {
    // Empty if it is not linked.
    std::string name;
    // Its place in the new manifest; -1 if it has none.
    int place = -1;
  };

  // Returns null if the key had none, or has changed.
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
