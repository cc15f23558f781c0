#include "service/store/keyspace/snapshots/snapshot_terms.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/duration.h"
#include "service/store/keyspace/snapshots/snapshot_parts.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxPrefixes = 16;
constexpr size_t kMaxMetadata = 64;
constexpr size_t kMaxMetadataBytes = 4096;

absl::Status InvalidIn(absl::string_view field, const absl::Status& status) {
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", status.message()));
}

template <typename Proto>
absl::Status CheckMetadata(const Proto& metadata) {
  size_t bytes = 0;
  for (const auto& [name, value] : metadata) {
    bytes += name.size() + value.size();
  }
  if (metadata.size() <= kMaxMetadata && bytes <= kMaxMetadataBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "metadata: expected at most ", kMaxMetadata, " entries and ",
      kMaxMetadataBytes, " bytes, got ", metadata.size(), " and ", bytes));
}

// Sets the prefixes in order, each once.
template <typename Proto>
absl::Status SetPrefixes(const Proto& proto, SnapshotTerms& terms) {
  if (static_cast<size_t>(proto.size()) > kMaxPrefixes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "prefixes: expected at most ", kMaxPrefixes, ", got ", proto.size()));
  }
  for (const std::string& prefix : proto) {
    if (absl::Status status = CheckKey(prefix); !status.ok()) {
      return InvalidIn("prefixes", status);
    }
    terms.prefixes.push_back(prefix);
  }
  if (terms.prefixes.empty()) terms.prefixes.emplace_back();
  std::sort(terms.prefixes.begin(), terms.prefixes.end());
  terms.prefixes.erase(
      std::unique(terms.prefixes.begin(), terms.prefixes.end()),
      terms.prefixes.end());
  return absl::OkStatus();
}

absl::StatusOr<DType> FloatOf(v1::DType number) {
  if (number == v1::DTYPE_UNSPECIFIED) return DType::kUnknown;
  const absl::StatusOr<DType> dtype = DTypeFromNumber(number);
  if (!dtype.ok()) return InvalidIn("dtype", dtype.status());
  if (IsFloat(*dtype)) return *dtype;
  return absl::InvalidArgumentError(
      absl::StrCat("dtype: expected a float, got ", NameOf(*dtype)));
}

template <typename Proto>
absl::StatusOr<SnapshotTerms> Read(const Proto& proto) {
  SnapshotTerms terms;
  RETURN_IF_ERROR(CheckSeriesName("series", proto.series()));
  RETURN_IF_ERROR(CheckMetadata(proto.metadata()));
  RETURN_IF_ERROR(SetPrefixes(proto.prefixes(), terms));
  ASSIGN_OR_RETURN(terms.dtype, FloatOf(proto.dtype()));
  terms.series = proto.series();
  if (proto.has_number()) terms.number = proto.number();
  terms.uid = proto.uid();
  if (proto.has_expected_latest()) {
    terms.expected_latest = proto.expected_latest();
  }
  terms.metadata.insert(proto.metadata().begin(), proto.metadata().end());
  terms.keep_last = proto.keep_last();
  if (!proto.has_time_to_live()) return terms;
  ASSIGN_OR_RETURN(terms.time_to_live,
                   DecodeDuration("time_to_live", proto.time_to_live()));
  if (terms.time_to_live > absl::ZeroDuration()) return terms;
  return absl::InvalidArgumentError(
      absl::StrCat("time_to_live: expected more than zero, got ",
                   absl::FormatDuration(terms.time_to_live)));
}

absl::Status CheckShare(const SnapshotTerms& terms) {
  if (!terms.is_share || (terms.uid != 0 && terms.number)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "number and uid: expected both for a share, got others");
}

absl::Status SetPart(const PublishAs& publish_as, SnapshotTerms& terms) {
  const v1::SnapshotPart& part = publish_as.part();
  if (part.index() >= part.count() || part.count() > SnapshotParts::kMost) {
    return absl::InvalidArgumentError(absl::StrCat(
        "part: expected an index below a count of at most ",
        SnapshotParts::kMost, ", got ", part.index(), " of ", part.count()));
  }
  if (!terms.number || *terms.number == 0 || terms.expected_latest ||
      terms.is_share) {
    return absl::InvalidArgumentError(
        "part: expected it with a number, above 0, and with neither "
        "expected_latest nor uid, got others");
  }
  terms.part_index = part.index();
  terms.part_count = part.count();
  if (publish_as.prefixes().empty()) terms.prefixes.clear();
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSeriesName(absl::string_view field, absl::string_view name) {
  if (absl::Status status = CheckKey(name); !status.ok()) {
    return InvalidIn(field, status);
  }
  if (name.size() <= kMaxNamespaceBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": expected at most ",
                                                 kMaxNamespaceBytes,
                                                 " bytes, got ", name.size()));
}

absl::StatusOr<SnapshotTerms> TermsOf(const CreateSnapshotRequest& request) {
  ASSIGN_OR_RETURN(SnapshotTerms terms, Read(request));
  terms.is_share = request.step() == CreateSnapshotRequest::PREPARE;
  const bool is_named = request.step() == CreateSnapshotRequest::NAME;
  if (!terms.is_share && !is_named && terms.uid != 0) {
    return absl::InvalidArgumentError("uid: expected none, got one");
  }
  RETURN_IF_ERROR(CheckShare(terms));
  return terms;
}

absl::StatusOr<SnapshotTerms> TermsOf(const PublishAs& publish_as) {
  ASSIGN_OR_RETURN(SnapshotTerms terms, Read(publish_as));
  terms.is_share = terms.uid != 0;
  RETURN_IF_ERROR(CheckShare(terms));
  if (publish_as.has_part()) RETURN_IF_ERROR(SetPart(publish_as, terms));
  return terms;
}

absl::Status CheckReference(const SnapshotReference& reference) {
  RETURN_IF_ERROR(CheckSeriesName("series", reference.series()));
  const bool is_latest =
      reference.selector_case() == SnapshotReference::kLatest;
  const bool is_number =
      reference.selector_case() == SnapshotReference::kNumber;
  if (reference.uid() != 0 && !is_number) {
    return absl::InvalidArgumentError(
        "uid: expected one with a number alone, got one without");
  }
  if (reference.selector_case() != SnapshotReference::SELECTOR_NOT_SET &&
      (!is_latest || reference.latest())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "snapshot: expected a number, the latest, or at least a number, got "
      "none of these");
}

}  // namespace tensorkv
