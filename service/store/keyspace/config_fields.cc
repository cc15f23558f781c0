#include "service/store/keyspace/config_fields.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/shown_text.h"
#include "contract/choice_names.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

// Statuses travel in HTTP/2 headers, which are small.
constexpr size_t kMaxTextBytes = 64;
constexpr size_t kMostPathsNamed = 8;

// Returns a field as text; a number by the fewest digits that give it back.
template <typename Value>
std::string TextOf(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return std::string(NameOf(value));
  } else {
    char digits[32];
    return std::string(digits,
                       std::to_chars(digits, std::end(digits), value).ptr);
  }
}
std::string TextOf(bool value) { return value ? "true" : "false"; }
std::string TextOf(absl::Duration value) { return absl::FormatDuration(value); }
std::string TextOf(const RuleSpec& rule) {
  return Quoted(rule.ToString(), kMaxTextBytes);
}

struct Field {
  absl::string_view path;
  bool may_change;
  bool (*are_equal)(const NamespaceConfig& a, const NamespaceConfig& b);
  std::string (*text)(const NamespaceConfig& config);
  void (*copy)(const NamespaceConfig& from, NamespaceConfig& to);
};

#define TENSORKV_FIELD(field, may_change)                      \
  Field {                                                      \
#field, may_change,                                          \
        [](const NamespaceConfig& a, const NamespaceConfig& b) { \
          return a.field == b.field;                             \
        },                                                       \
        [](const NamespaceConfig& config) {                      \
          return TextOf(config.field);                           \
        },                                                       \
        [](const NamespaceConfig& from, NamespaceConfig& to) {   \
          to.field = from.field;                                 \
        } \
  }

// Lists the fields in the order of the contract. Those of members are named as
// in a FieldMask.
constexpr Field kFields[] = {
    TENSORKV_FIELD(mode, false),
    TENSORKV_FIELD(num_workers, false),
    TENSORKV_FIELD(max_workers, false),
    TENSORKV_FIELD(rule, false),
    TENSORKV_FIELD(budget_bytes, true),
    TENSORKV_FIELD(staleness, false),
    TENSORKV_FIELD(on_worker_loss, true),
    TENSORKV_FIELD(rescale_partial_rounds, true),
    TENSORKV_FIELD(quorum, true),
    TENSORKV_FIELD(quorum_grace, true),
    TENSORKV_FIELD(max_open_rounds, false),
    TENSORKV_FIELD(gradient_guard.on_non_finite, true),
    TENSORKV_FIELD(gradient_guard.max_norm, true),
    TENSORKV_FIELD(gradient_guard.on_large_norm, true),
    TENSORKV_FIELD(gradient_guard.max_call_norm, true),
    TENSORKV_FIELD(aggregation, false),
    TENSORKV_FIELD(trim_fraction, false),
    TENSORKV_FIELD(sum_order, false),
    TENSORKV_FIELD(mirrored, false),
    TENSORKV_FIELD(max_retained_bytes, true),
    TENSORKV_FIELD(round_timeout, true),
    TENSORKV_FIELD(late, false),
    TENSORKV_FIELD(staleness_decay, false),
};
#undef TENSORKV_FIELD

// Returns whether a path of a mask names the field, or a member that has it.
bool Names(absl::string_view path, const Field& field) {
  return absl::StartsWith(field.path, path) &&
         (field.path.size() == path.size() || field.path[path.size()] == '.');
}

bool MayChange(absl::string_view path) {
  return absl::c_any_of(kFields, [path](const Field& field) {
    return field.may_change && Names(path, field);
  });
}

// Returns the names of the fields that may change, each member's once.
std::string FieldsThatMayChange() {
  std::vector<absl::string_view> names;
  for (const Field& field : kFields) {
    const absl::string_view name = field.path.substr(0, field.path.find('.'));
    if (field.may_change && (names.empty() || names.back() != name)) {
      names.push_back(name);
    }
  }
  return absl::StrJoin(names, ", ");
}

}  // namespace

absl::Status CheckSameConfig(absl::string_view subject,
                             absl::string_view name_space,
                             const NamespaceConfig& expected,
                             const NamespaceConfig& actual,
                             ConfigFields which) {
  std::vector<absl::string_view> fields;
  std::string differences;
  for (const Field& field : kFields) {
    if (which == ConfigFields::kFixed && field.may_change) continue;
    if (field.are_equal(expected, actual)) continue;
    absl::StrAppend(&differences, fields.empty() ? ": " : "; ", field.path,
                    ": expected ", field.text(expected), ", got ",
                    field.text(actual));
    fields.push_back(field.path);
  }
  if (fields.empty()) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(subject, differences)),
      Reason::kExistsDifferently,
      {{"namespace", name_space}, {"fields", absl::StrJoin(fields, ",")}});
}

std::string TextOfChanges(const NamespaceConfig& from,
                          const NamespaceConfig& to) {
  std::string text;
  for (const Field& field : kFields) {
    if (field.are_equal(from, to)) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", field.path, "=",
                    field.text(to));
  }
  return text;
}

absl::Status CheckUpdateMask(absl::Span<const std::string> paths) {
  std::vector<std::string> wrong;
  size_t num_wrong = 0;
  for (const std::string& path : paths) {
    if (MayChange(path)) continue;
    if (++num_wrong <= kMostPathsNamed) {
      wrong.push_back(Quoted(path, kMaxTextBytes));
    }
  }
  if (!paths.empty() && num_wrong == 0) return absl::OkStatus();
  if (num_wrong > wrong.size()) {
    wrong.push_back(absl::StrCat(num_wrong - wrong.size(), " more"));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "update_mask: expected fields that may change (", FieldsThatMayChange(),
      "), got ", wrong.empty() ? "none" : absl::StrJoin(wrong, ", ")));
}

void CopyFields(absl::Span<const std::string> paths,
                const NamespaceConfig& from, NamespaceConfig& to) {
  for (const Field& field : kFields) {
    const bool is_named = absl::c_any_of(
        paths,
        [&field](const std::string& path) { return Names(path, field); });
    if (is_named) field.copy(from, to);
  }
}

}  // namespace tensorkv
