#include "service/checkpoint/snapshot_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "service/checkpoint/manifest_codec.h"
#include "xxhash.h"

namespace tensorkv {
namespace {

// A record has so much, or one key.
constexpr uint64_t kRecordBytes = 4 << 20;
constexpr int kKeysOfRecord = 4096;
// More than any such manifest has.
constexpr uint64_t kMaxManifestBytes = 1 << 30;

absl::Status StreamDamaged(absl::string_view how) {
  return absl::DataLossError(absl::StrCat("stream of keys: ", how));
}

void AppendSize(uint64_t size, std::string& bytes) {
  for (size_t i = 0; i < sizeof(size); ++i) {
    bytes.push_back(static_cast<char>(size >> (8 * i)));
  }
}

uint64_t SizeIn(absl::string_view bytes) {
  uint64_t size = 0;
  for (size_t i = 0; i < sizeof(size); ++i) {
    size |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return size;
}

uint64_t DigestOfElements(absl::Span<const char> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace

// --- Writing -----------------------------------------------------------------

absl::Status SnapshotStreamWriter::Begin(NamespaceSnapshot name_space) {
  last_contributors_ = nullptr;
  v1::NamespaceManifest manifest;
  ToProto(name_space, &manifest);
  return SendRecord(manifest, {}, 0);
}

absl::Status SnapshotStreamWriter::Add(KeySnapshot key) {
  v1::SavedKey* const saved = AddKey(key, last_contributors_, &keys_);
  AddTensor("", std::move(key.value), saved);
  for (StateSnapshot& state : key.states) {
    AddTensor(state.name, std::move(state.tensor), saved);
  }
  if (record_bytes_ < kRecordBytes && keys_.keys_size() < kKeysOfRecord) {
    return absl::OkStatus();
  }
  return Flush();
}

void SnapshotStreamWriter::AddTensor(const std::string& state, Tensor tensor,
                                     v1::SavedKey* saved) {
  v1::SavedTensor* const added = saved->add_tensors();
  added->set_state(state);
  added->set_offset(record_bytes_);
  added->set_dtype(static_cast<v1::DType>(tensor.dtype()));
  const auto dimensions = tensor.shape().dimensions();
  added->mutable_shape()->Add(dimensions.begin(), dimensions.end());
  const auto size = static_cast<size_t>(tensor.size_bytes());
  added->set_digest(DigestOfElements({tensor.data(), size}));
  record_bytes_ += size;
  tensor_bytes_ += size;
  tensors_.push_back(std::move(tensor));
}

absl::Status SnapshotStreamWriter::Flush() {
  if (keys_.keys_size() == 0) return absl::OkStatus();
  RETURN_IF_ERROR(SendRecord(keys_, tensors_, record_bytes_));
  // Each record names its contributors anew.
  last_contributors_ = nullptr;
  keys_.Clear();
  tensors_.clear();
  record_bytes_ = 0;
  return absl::OkStatus();
}

absl::Status SnapshotStreamWriter::SendRecord(
    const v1::NamespaceManifest& manifest, const std::vector<Tensor>& tensors,
    uint64_t tensor_bytes) {
  std::string serialized;
  if (!manifest.SerializeToString(&serialized)) {
    return absl::ResourceExhaustedError(
        "manifest: expected less than 2 GiB, got more");
  }
  std::string sizes;
  AppendSize(serialized.size(), sizes);
  AppendSize(tensor_bytes, sizes);
  RETURN_IF_ERROR(Append(sizes));
  RETURN_IF_ERROR(Append(serialized));
  for (const Tensor& tensor : tensors) {
    RETURN_IF_ERROR(
        Append({tensor.data(), static_cast<size_t>(tensor.size_bytes())}));
  }
  return absl::OkStatus();
}

// Copied, so that small keys do not make small messages.
absl::Status SnapshotStreamWriter::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kPieceBytes - piece_.size());
    piece_.append(bytes.data(), size);
    bytes.remove_prefix(size);
    if (piece_.size() < kPieceBytes) continue;
    RETURN_IF_ERROR(send_(std::exchange(piece_, {})));
  }
  return absl::OkStatus();
}

absl::Status SnapshotStreamWriter::Finish() {
  return piece_.empty() ? absl::OkStatus() : send_(std::exchange(piece_, {}));
}

// --- Reading -----------------------------------------------------------------

absl::Span<char> SnapshotStreamReader::NextSpan() {
  absl::Span<char> span = absl::MakeSpan(bytes_);
  if (part_ == Part::kTensors) span = spans_[next_span_];
  return span.subspan(num_read_);
}

absl::Status SnapshotStreamReader::Read(absl::string_view bytes) {
  while (!bytes.empty()) {
    // No more memory than has come is taken for what the sizes promise.
    if (part_ == Part::kManifest) {
      bytes_.resize(std::min(manifest_bytes_, num_read_ + bytes.size()));
    }
    const absl::Span<char> span = NextSpan();
    const size_t size = std::min(span.size(), bytes.size());
    std::memcpy(span.data(), bytes.data(), size);
    bytes.remove_prefix(size);
    num_read_ += size;
    const bool goes_on =
        part_ == Part::kManifest && num_read_ < manifest_bytes_;
    if (size == span.size() && !goes_on) RETURN_IF_ERROR(EndPart());
  }
  return absl::OkStatus();
}

absl::Status SnapshotStreamReader::EndPart() {
  num_read_ = 0;
  switch (part_) {
    case Part::kSizes:
      return EndSizes();
    case Part::kManifest:
      return EndManifest();
    case Part::kTensors:
      break;
  }
  if (DigestOfElements(spans_[next_span_]) != digests_[next_span_]) {
    return StreamDamaged("a tensor does not have its digest");
  }
  ++next_span_;
  return next_span_ == spans_.size() ? EndRecord() : absl::OkStatus();
}

absl::Status SnapshotStreamReader::EndSizes() {
  manifest_bytes_ = SizeIn(bytes_);
  tensor_bytes_ = SizeIn(absl::string_view(bytes_).substr(sizeof(uint64_t)));
  if (manifest_bytes_ == 0 || manifest_bytes_ > kMaxManifestBytes) {
    return StreamDamaged("a manifest of a size that none has");
  }
  part_ = Part::kManifest;
  bytes_.clear();
  return absl::OkStatus();
}

absl::Status SnapshotStreamReader::EndManifest() {
  manifest_.Clear();
  if (!manifest_.ParseFromString(bytes_)) return StreamDamaged("no manifest");
  if (manifest_.keys_size() == 0) {
    ASSIGN_OR_RETURN(const NamespaceSnapshot snapshot, FromProto(manifest_));
    RETURN_IF_ERROR(to_.Begin(snapshot));
    return EndRecord();
  }
  RETURN_IF_ERROR(MakeKeys());
  part_ = Part::kTensors;
  return spans_.empty() ? EndRecord() : absl::OkStatus();
}

absl::Status SnapshotStreamReader::MakeKeys() {
  const auto contributors = ContributorsOf(manifest_);
  uint64_t offset = 0;
  for (const v1::SavedKey& saved : manifest_.keys()) {
    ASSIGN_OR_RETURN(KeySnapshot key, FromProto(saved, contributors));
    for (const v1::SavedTensor& each : saved.tensors()) {
      RETURN_IF_ERROR(MakeTensor(each, key, offset));
    }
    keys_.push_back(std::move(key));
  }
  return offset == tensor_bytes_ ? absl::OkStatus()
                                 : StreamDamaged("tensors of another size");
}

absl::Status SnapshotStreamReader::MakeTensor(const v1::SavedTensor& saved,
                                              KeySnapshot& key,
                                              uint64_t& offset) {
  const absl::StatusOr<DType> dtype = DTypeFromNumber(saved.dtype());
  absl::StatusOr<Shape> shape = Shape::Create(saved.shape());
  if (!dtype.ok() || !shape.ok()) return StreamDamaged("no dtype or shape");
  const uint64_t size = shape->num_elements() * SizeOf(*dtype);
  if (saved.offset() != offset || size > tensor_bytes_ - offset) {
    return StreamDamaged("a tensor beyond its record");
  }
  offset += size;
  ASSIGN_OR_RETURN(Tensor tensor, to_.Allocate(*dtype, *std::move(shape)));
  if (size > 0) {
    spans_.emplace_back(tensor.mutable_data(), size);
    digests_.push_back(saved.digest());
  }
  if (saved.state().empty()) {
    key.value = std::move(tensor);
  } else {
    key.states.push_back({saved.state(), std::move(tensor)});
  }
  return absl::OkStatus();
}

absl::Status SnapshotStreamReader::EndRecord() {
  part_ = Part::kSizes;
  bytes_.assign(2 * sizeof(uint64_t), '\0');
  next_span_ = 0;
  spans_.clear();
  digests_.clear();
  std::vector<KeySnapshot> keys = std::exchange(keys_, {});
  return keys.empty() ? absl::OkStatus() : to_.Add(std::move(keys));
}

absl::Status SnapshotStreamReader::Finish() const {
  return part_ == Part::kSizes && num_read_ == 0
             ? absl::OkStatus()
             : StreamDamaged("it is cut off");
}

}  // namespace tensorkv
