#include "tensor/safetensors.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"

namespace tensorkv {
namespace {

using Json = nlohmann::json;

constexpr size_t kLengthBytes = 8;
// Elements begin where disks can read them past the system's cache.
constexpr size_t kHeaderAlignment = 4096;
constexpr absl::string_view kMetadata = "__metadata__";
// In the file, where a tensor has that name: no tensor has a control character
// in its own.
constexpr absl::string_view kEscapedMetadata = "__metadata__\x01";

struct DTypeName {
  DType dtype;
  absl::string_view name;
};
constexpr DTypeName kDTypeNames[] = {
    {DType::kBool, "BOOL"},        {DType::kU8, "U8"},   {DType::kI8, "I8"},
    {DType::kF8E5M2, "F8_E5M2"},   {DType::kI16, "I16"}, {DType::kU16, "U16"},
    {DType::kF8E4M3FN, "F8_E4M3"}, {DType::kF16, "F16"}, {DType::kBF16, "BF16"},
    {DType::kI32, "I32"},          {DType::kU32, "U32"}, {DType::kF32, "F32"},
    {DType::kF64, "F64"},          {DType::kI64, "I64"}, {DType::kU64, "U64"}};
static_assert(std::size(kDTypeNames) == std::size(kAllDTypes));

absl::string_view NameInFile(DType dtype) {
  for (const DTypeName& each : kDTypeNames) {
    if (each.dtype == dtype) return each.name;
  }
  return "";
}

absl::Status Malformed(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("safetensors: ", what));
}

absl::Status Malformed(absl::string_view name, absl::string_view expected) {
  return Malformed(absl::StrCat("tensor \"", name, "\": expected ", expected));
}

absl::StatusOr<DType> DTypeOf(absl::string_view name, const Json& tensor) {
  const auto dtype = tensor.find("dtype");
  if (dtype != tensor.end() && dtype->is_string()) {
    for (const DTypeName& each : kDTypeNames) {
      if (each.name == dtype->get_ref<const std::string&>()) return each.dtype;
    }
  }
  return Malformed(
      name, absl::StrCat(
                "a dtype such as \"F32\", got ",
                dtype == tensor.end() ? "none" : dtype->dump().substr(0, 64)));
}

// Returns the numbers of the member of that name.
absl::StatusOr<std::vector<uint64_t>> NumbersOf(absl::string_view name,
                                                const Json& tensor,
                                                const char* member) {
  const auto numbers = tensor.find(member);
  const auto is_number = [](const Json& each) {
    return each.is_number_unsigned();
  };
  if (numbers == tensor.end() || !numbers->is_array() ||
      !std::all_of(numbers->begin(), numbers->end(), is_number)) {
    return Malformed(name, absl::StrCat(member, " of whole numbers"));
  }
  return numbers->get<std::vector<uint64_t>>();
}

absl::StatusOr<SafetensorsEntry> EntryOf(const std::string& name,
                                         const Json& tensor,
                                         uint64_t data_begin) {
  if (!tensor.is_object()) return Malformed(name, "an object");
  SafetensorsEntry entry;
  entry.name = name == kEscapedMetadata ? std::string(kMetadata) : name;
  ASSIGN_OR_RETURN(entry.dtype, DTypeOf(name, tensor));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> shape,
                   NumbersOf(name, tensor, "shape"));
  ASSIGN_OR_RETURN(entry.shape, Shape::Create(std::vector<int64_t>(
                                    shape.begin(), shape.end())));
  ASSIGN_OR_RETURN(const std::vector<uint64_t> offsets,
                   NumbersOf(name, tensor, "data_offsets"));
  // The sum of two such numbers does not wrap, nor does a shape's size.
  constexpr uint64_t kMost = uint64_t{1} << 60;
  if (offsets.size() != 2 || offsets[0] > kMost ||
      static_cast<uint64_t>(entry.shape.num_elements()) > kMost ||
      offsets[1] != offsets[0] + entry.size_bytes()) {
    return Malformed(name,
                     "data_offsets that are as far apart as its dtype "
                     "and shape ask for");
  }
  entry.offset = data_begin + offsets[0];
  return entry;
}

// Collects the names of an object's members in their order, which the parsed
// object does not keep. A callback of the parser would hear them, too, but with
// one each object that ends costs a walk over all of the object around it.
class MemberNames final : public nlohmann::json_sax<Json> {
 public:
  std::vector<std::string> names;

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return ++depth_ > 0; }
  bool key(string_t& name) override {
    if (depth_ == 1) names.push_back(name);
    return true;
  }
  bool end_object() override { return depth_-- > 0; }
  bool start_array(size_t) override { return ++depth_ > 0; }
  bool end_array() override { return depth_-- > 0; }
  bool parse_error(size_t, const std::string&,
                   const Json::exception&) override {
    return false;
  }

 private:
  int64_t depth_ = 0;
};

// Checks that the entries, which are in order, follow each other from `begin`
// to `end`.
absl::Status CheckContiguous(const std::vector<SafetensorsEntry>& entries,
                             uint64_t begin, uint64_t end) {
  for (const SafetensorsEntry& entry : entries) {
    if (entry.offset != begin) {
      return Malformed(entry.name, "to begin where the tensor before it ends");
    }
    begin += entry.size_bytes();
  }
  if (begin == end) return absl::OkStatus();
  return Malformed(
      absl::StrCat("expected a file of ", begin, " bytes, got ", end));
}

}  // namespace

std::string SafetensorsHeader(absl::Span<SafetensorsEntry> entries) {
  std::string header(kLengthBytes, '\0');
  header += '{';
  uint64_t begin = 0;
  for (SafetensorsEntry& entry : entries) {
    entry.offset = begin;
    const uint64_t end = begin + entry.size_bytes();
    const absl::string_view name =
        entry.name == kMetadata ? kEscapedMetadata : entry.name;
    absl::StrAppend(&header, header.back() == '{' ? "" : ",",
                    Json(std::string(name)).dump(), ":{\"dtype\":\"",
                    NameInFile(entry.dtype), "\",\"shape\":[");
    for (int i = 0; i < entry.shape.rank(); ++i) {
      absl::StrAppend(&header, i == 0 ? "" : ",", entry.shape.dimensions()[i]);
    }
    absl::StrAppend(&header, "],\"data_offsets\":[", begin, ",", end, "]}");
    begin = end;
  }
  header += '}';
  header.resize((header.size() + kHeaderAlignment - 1) / kHeaderAlignment *
                    kHeaderAlignment,
                ' ');
  for (SafetensorsEntry& entry : entries) entry.offset += header.size();
  const uint64_t length = header.size() - kLengthBytes;
  std::memcpy(header.data(), &length, kLengthBytes);
  return header;
}

absl::StatusOr<uint64_t> SafetensorsHeaderBytes(absl::string_view start) {
  if (start.size() < kLengthBytes) {
    return Malformed(absl::StrCat("expected a file of at least 8 bytes, got ",
                                  start.size()));
  }
  uint64_t length = 0;
  std::memcpy(&length, start.data(), kLengthBytes);
  if (length <= kMaxSafetensorsHeaderBytes) return kLengthBytes + length;
  return Malformed(absl::StrCat("expected a header of at most ",
                                kMaxSafetensorsHeaderBytes, " bytes, got ",
                                length));
}

absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensorsHeader(
    absl::string_view header, uint64_t file_bytes) {
  ASSIGN_OR_RETURN(const uint64_t header_bytes, SafetensorsHeaderBytes(header));
  if (header_bytes != header.size() || header_bytes > file_bytes) {
    return Malformed(absl::StrCat("expected a header of ", header_bytes,
                                  " bytes, got ", header.size()));
  }
  header.remove_prefix(kLengthBytes);
  const Json json = Json::parse(header.begin(), header.end(), nullptr,
                                /*allow_exceptions=*/false);
  if (!json.is_object()) return Malformed("the header is no JSON object");
  MemberNames members;
  Json::sax_parse(header.begin(), header.end(), &members);
  if (members.names.size() != json.size()) {
    return Malformed("the header names a tensor twice");
  }
  std::vector<SafetensorsEntry> entries;
  for (const std::string& name : members.names) {
    if (name == kMetadata) continue;
    ASSIGN_OR_RETURN(SafetensorsEntry entry,
                     EntryOf(name, json[name], header_bytes));
    entries.push_back(std::move(entry));
  }
  // Tensors without elements come before the one that begins where they do.
  std::stable_sort(entries.begin(), entries.end(),
                   [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
                     return std::pair(a.offset, a.size_bytes() > 0) <
                            std::pair(b.offset, b.size_bytes() > 0);
                   });
  RETURN_IF_ERROR(CheckContiguous(entries, header_bytes, file_bytes));
  return entries;
}

}  // namespace tensorkv
