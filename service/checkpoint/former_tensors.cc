#include "service/checkpoint/former_tensors.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "service/checkpoint/files.h"
#include "service/checkpoint/manifest_codec.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

// Returns how many bytes of each file the manifest's tensors take.
std::vector<uint64_t> BytesByFile(const v1::NamespaceManifest& manifest) {
  std::vector<uint64_t> bytes(manifest.files_size());
  for (const v1::SavedKey& key : manifest.keys()) {
    for (const v1::SavedTensor& tensor : key.tensors()) {
      const absl::StatusOr<uint64_t> size = SizeBytesOf(tensor);
      if (size.ok() && tensor.file() < bytes.size()) {
        bytes[tensor.file()] += *size;
      }
    }
  }
  return bytes;
}

// Returns the name of a file without its numbers.
std::string KindOf(const std::string& name) {
  const std::vector<std::string> parts =
      absl::StrSplit(name, absl::MaxSplits('-', 2));
  return parts.back();
}

// Links first and looks then, so that nobody can change the file between.
bool LinkUnchanged(const std::string& from, const std::string& to,
                   const v1::FileStamp& stamp) {
  if (!Link(from, to).ok()) return false;
  const absl::StatusOr<FileStamp> now = StampOf(to);
  if (now.ok() && *now == FileStamp{stamp.bytes(), stamp.modify_time()}) {
    return true;
  }
  RemoveFile(to).IgnoreError();  // it is there and wanted by nobody
  return false;
}

bool HasForm(const v1::SavedTensor& saved, const Tensor& tensor) {
  const auto dimensions = tensor.shape().dimensions();
  return saved.dtype() == static_cast<v1::DType>(tensor.dtype()) &&
         std::equal(dimensions.begin(), dimensions.end(), saved.shape().begin(),
                    saved.shape().end());
}

bool HasDigest(const v1::SavedTensor& saved, const Tensor& tensor) {
  return XXH3_64bits(tensor.data(), tensor.size_bytes()) == saved.digest();
}

}  // namespace

FormerTensors::FormerTensors(const std::string& from,
                             v1::NamespaceManifest former,
                             const std::string& to, int name_space)
    : former_(std::move(former)), directory_(to), files_(former_.files_size()) {
  if (former_.stamps_size() != former_.files_size()) return;
  const std::vector<uint64_t> wanted_bytes = BytesByFile(former_);
  for (int i = 0; i < former_.files_size(); ++i) {
    const v1::FileStamp& stamp = former_.stamps(i);
    if (2 * wanted_bytes[i] < stamp.tensor_bytes()) continue;
    const std::string& former_name = former_.files(i);
    const std::string name =
        TensorFileName(name_space, num_files_, KindOf(former_name));
    if (!LinkUnchanged(absl::StrCat(from, "/", former_name),
                       absl::StrCat(to, "/", name), stamp)) {
      continue;
    }
    files_[i].name = name;
    ++num_files_;
  }
  keys_.reserve(former_.keys_size());
  for (const v1::SavedKey& key : former_.keys()) {
    keys_.emplace(key.key(), &key);
  }
}

const v1::SavedTensor* FormerTensors::Find(const KeySnapshot& key,
                                           absl::string_view state) const {
  const auto found = keys_.find(key.key);
  if (found == keys_.end() || found->second->version() != key.version) {
    return nullptr;
  }
  for (const v1::SavedTensor& tensor : found->second->tensors()) {
    if (tensor.state() == state) return &tensor;
  }
  return nullptr;
}

bool FormerTensors::TakeOver(const KeySnapshot& key, absl::string_view state,
                             const Tensor& tensor,
                             v1::NamespaceManifest* manifest,
                             v1::SavedTensor* saved) {
  const v1::SavedTensor* const former = Find(key, state);
  if (former == nullptr || former->file() >= files_.size()) return false;
  File& file = files_[former->file()];
  if (file.name.empty() || !HasForm(*former, tensor)) return false;
  if (!state.empty() && !HasDigest(*former, tensor)) return false;
  if (file.place < 0) {
    file.place = manifest->files_size();
    manifest->add_files(file.name);
    *manifest->add_stamps() = former_.stamps(former->file());
  }
  *saved = *former;
  saved->set_file(file.place);
  return true;
}

uint64_t FormerTensors::RemoveUnused() const {
  uint64_t bytes = 0;
  for (size_t i = 0; i < files_.size(); ++i) {
    if (files_[i].place >= 0) {
      bytes += former_.stamps(static_cast<int>(i)).bytes();
    } else if (!files_[i].name.empty()) {
      // A link that stays takes a name, and no more.
      RemoveFile(absl::StrCat(directory_, "/", files_[i].name)).IgnoreError();
    }
  }
  return bytes;
}

}  // namespace tensorkv
