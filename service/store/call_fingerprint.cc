#include "service/store/call_fingerprint.h"

// The hashed text is short: a call of the library would take longer.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/types/span.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxElementBytes = 64;
// Says how far ahead of an entry the elements of others are fetched.
constexpr size_t kEntriesAhead = 8;

// Takes in the parts of a request, one after another: bytes are hashed with the
// digest of what came before as their seed, numbers are mixed into it.
class Hasher {
 public:
  explicit Hasher(char verb) : digest_(verb) {}

  template <
      typename T,
      std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>, int> = 0>
  void Add(T value) {
    constexpr uint64_t kOdd = 0x9e3779b97f4a7c15;  // 2^64 by the golden ratio
    uint64_t number = 0;
    std::memcpy(&number, &value, sizeof(value));
    digest_ = std::rotl((digest_ ^ number) * kOdd, 32);
  }

  void Add(const std::string& text) { AddBytes(text.data(), text.size()); }

  template <typename T>
  void Add(const std::optional<T>& value) {
    Add(value.has_value());
    if (value) Add(*value);
  }

  template <typename T>
  void Add(absl::Span<const T> values) {
    Add(values.size());
    for (const T& value : values) Add(value);
  }
  template <typename T>
  void Add(const std::vector<T>& values) {
    Add(absl::MakeConstSpan(values));
  }

  // Takes in several parts.
  template <typename... Parts>
  void AddAll(const Parts&... parts) {
    (Add(parts), ...);
  }

  // Calls that publish nothing have the fingerprint of those that cannot.
  void AddIfAny(const std::optional<PublishAs>& publish_as) {
    if (publish_as) Add(FingerprintOfMessage(*publish_as));
  }

  void Add(const Worker& worker) { AddAll(worker.rank, worker.epoch); }

  void Add(const Tensor& tensor) {
    const Shape& shape = tensor.shape();
    Add(static_cast<int>(tensor.dtype()) << 8 | shape.rank());
    for (const int64_t dimension : shape.dimensions()) Add(dimension);
    if (!tensor.has_data()) return;
    AddBytes(tensor.data(),
             std::min<size_t>(tensor.size_bytes(), kMaxElementBytes));
  }

  void Add(const Encoding& encoding) {
    const Packing& packing = encoding.packing();
    AddAll(packing.kind, packing.element_dtype, packing.bits,
           packing.is_natural, packing.scale, packing.block_size, packing.count,
           packing.seed, encoding.shape().dimensions());
  }

  void Add(const InitEntry& entry) { AddAll(entry.key, entry.tensor); }

  void Add(const SetStateEntry& entry) {
    AddAll(entry.key, entry.state, entry.tensor);
  }

  uint64_t digest() const { return digest_; }

 private:
  void AddBytes(const void* bytes, size_t size) {
    digest_ = XXH3_64bits_withSeed(bytes, size, digest_);
  }

  uint64_t digest_;
};

template <typename... Parts>
uint64_t DigestOf(char verb, const Parts&... parts) {
  Hasher hasher(verb);
  hasher.AddAll(parts...);
  return hasher.digest();
}

// Returns the fingerprint of a push. Of its entries most fields are at their
// default, and are left out there.
uint64_t FingerprintOfPush(Hasher hasher, const PushRequest& request) {
  hasher.AddAll(request.worker, request.step);
  hasher.AddIfAny(request.publish_as);
  const std::vector<PushEntry>& entries = request.entries;
  for (size_t i = 0; i < entries.size(); ++i) {
    const PushEntry& entry = entries[i];
    if (i + kEntriesAhead < entries.size()) {
      __builtin_prefetch(entries[i + kEntriesAhead].tensor.data());
    }
    hasher.Add(entry.key);
    if (entry.skip) hasher.Add(entry.skip);
    hasher.Add(entry.tensor);
    if (entry.encoding) hasher.Add(*entry.encoding);
    if (entry.weight != 1) hasher.Add(entry.weight);
    if (entry.delta) hasher.AddAll(entry.delta->base, entry.delta->digest);
    if (!entry.rows) continue;
    hasher.AddAll(entry.update_all_rows, entry.rows->tensor());
  }
  return hasher.digest();
}

}  // namespace

uint64_t Fingerprint(const InitRequest& request) {
  Hasher hasher('i');
  hasher.AddAll(request.on_existing, request.entries);
  hasher.AddIfAny(request.publish_as);
  return hasher.digest();
}

uint64_t Fingerprint(const PushRequest& request) {
  return FingerprintOfPush(Hasher('p'), request);
}

uint64_t Fingerprint(const PushPullRequest& request) {
  Hasher hasher('q');
  hasher.Add(request.dtype);
  return FingerprintOfPush(hasher, request);
}

uint64_t Fingerprint(const SetStateRequest& request) {
  return DigestOf('s', request.entries);
}

uint64_t FingerprintOfMessage(const google::protobuf::Message& message) {
  std::string bytes;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    message.SerializeToCodedStream(&coded);
  }
  const std::string type = message.GetTypeName();
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(),
                              XXH3_64bits(type.data(), type.size()));
}

}  // namespace tensorkv
