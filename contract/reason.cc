#include "contract/reason.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "base/shown_text.h"
#include "contract/length_delimited.h"

namespace tensorkv {
namespace {

struct ReasonRow {
  Reason reason;
  absl::string_view name;
};

constexpr ReasonRow kReasons[] = {{Reason::kUnspecified, "REASON_UNSPECIFIED"},
#define TENSORKV_ROW(enumerator, name, ...) {Reason::enumerator, #name},
                                  TENSORKV_REASONS(TENSORKV_ROW)
#undef TENSORKV_ROW
};

const ReasonRow& RowOf(Reason reason) {
  const auto found = std::ranges::find(kReasons, reason, &ReasonRow::reason);
  return found != std::end(kReasons) ? *found : kReasons[0];
}

// The fields of google.rpc.ErrorInfo, and of an entry of its map.
constexpr int kReasonField = 1;
constexpr int kDomainField = 2;
constexpr int kMetadataField = 3;
constexpr int kNameField = 1;
constexpr int kValueField = 2;

// Encodes an ErrorInfo without metadata.
std::string InfoHead(Reason reason) {
  std::string info;
  AppendField(kReasonField, ReasonName(reason), info);
  AppendField(kDomainField, kErrorDomain, info);
  return info;
}

void AppendDetail(absl::string_view name, absl::string_view value,
                  std::string& info) {
  std::string entry;
  AppendField(kNameField, name, entry);
  AppendField(kValueField, Utf8Prefix(value, kMaxErrorDetailBytes), entry);
  AppendField(kMetadataField, entry, info);
}

std::pair<std::string, std::string> ReadDetail(absl::string_view bytes,
                                               bool& is_valid) {
  std::pair<std::string, std::string> detail;
  is_valid &= ForEachField(bytes, [&](int field, absl::string_view text) {
    if (field == kNameField) detail.first = std::string(text);
    if (field == kValueField) detail.second = std::string(text);
  });
  return detail;
}

}  // namespace

absl::string_view ReasonName(Reason reason) { return RowOf(reason).name; }

Reason ReasonByName(absl::string_view name) {
  const auto found = std::ranges::find(kReasons, name, &ReasonRow::name);
  return found != std::end(kReasons) ? found->reason : Reason::kUnspecified;
}

absl::Status WithReason(absl::Status status, Reason reason,
                        std::initializer_list<ErrorDetail> details) {
  std::string info = InfoHead(reason);
  for (const ErrorDetail& detail : details) {
    AppendDetail(detail.name, detail.value, info);
  }
  status.SetPayload(kErrorInfoTypeUrl, absl::Cord(std::move(info)));
  return status;
}

absl::Status WithInfo(absl::Status status, const ErrorInfo& info) {
  std::string text = InfoHead(info.reason);
  for (const auto& [name, value] : info.metadata) {
    AppendDetail(name, value, text);
  }
  status.SetPayload(kErrorInfoTypeUrl, absl::Cord(std::move(text)));
  return status;
}

std::optional<ErrorInfo> ErrorInfoOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kErrorInfoTypeUrl);
  if (!payload.has_value()) return std::nullopt;
  ErrorInfo info;
  std::string domain;
  bool is_valid = true;
  is_valid &= ForEachField(std::string(*payload),
                           [&](int field, absl::string_view text) {
                             if (field == kReasonField)
                               info.reason = ReasonByName(text);
                             if (field == kDomainField)
                               domain = std::string(text);
                             if (field == kMetadataField) {
                               info.metadata.insert(ReadDetail(text, is_valid));
                             }
                           });
  if (!is_valid || domain != kErrorDomain) return std::nullopt;
  return info;
}

Reason ReasonOf(const absl::Status& status) {
  const std::optional<ErrorInfo> info = ErrorInfoOf(status);
  return info.has_value() ? info->reason : Reason::kUnspecified;
}

}  // namespace tensorkv
