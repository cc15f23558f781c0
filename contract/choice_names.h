// The choices of requests as users spell them, on the command line and in
// Python: their names in proto/ without what all names of an enum begin with.

#ifndef TENSORKV_CONTRACT_CHOICE_NAMES_H_
#define TENSORKV_CONTRACT_CHOICE_NAMES_H_

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "contract/call_fields.h"
#include "contract/namespace_config.h"
#include "google/protobuf/generated_enum_reflection.h"
#include "tensorkv/v1/call.pb.h"
#include "tensorkv/v1/namespace.pb.h"

namespace tensorkv {

// Names the enum in proto/ with the same choices in the same order, after one
// that is unspecified.
template <typename Choice>
struct ProtoOf;
template <>
struct ProtoOf<OnExisting> {
  using Type = v1::OnExisting;
};
template <>
struct ProtoOf<Mode> {
  using Type = v1::Mode;
};
template <>
struct ProtoOf<OnWorkerLoss> {
  using Type = v1::OnWorkerLoss;
};
template <>
struct ProtoOf<Aggregation> {
  using Type = v1::Aggregation;
};
template <>
struct ProtoOf<SumOrder> {
  using Type = v1::SumOrder;
};
template <>
struct ProtoOf<Late> {
  using Type = v1::Late;
};
template <>
struct ProtoOf<OnNonFinite> {
  using Type = v1::OnNonFinite;
};
template <>
struct ProtoOf<OnLargeNorm> {
  using Type = v1::OnLargeNorm;
};

// Returns the names of all choices, the default first.
template <typename Choice>
std::vector<std::string> ChoiceNames() {
  using Proto = typename ProtoOf<Choice>::Type;
  constexpr absl::string_view kNone = "UNSPECIFIED";
  const auto& type = *google::protobuf::GetEnumDescriptor<Proto>();
  const size_t prefix_bytes = type.value(0)->name().size() - kNone.size();
  std::vector<std::string> names;
  for (int i = 1; i < type.value_count(); ++i) {
    names.push_back(
        absl::AsciiStrToLower(type.value(i)->name().substr(prefix_bytes)));
  }
  return names;
}

// Returns the name of `choice`; "unknown" for what only a newer server has.
template <typename Choice>
requires requires { typename ProtoOf<Choice>::Type; }
std::string NameOf(Choice choice) {
  const std::vector<std::string> names = ChoiceNames<Choice>();
  const auto index = static_cast<size_t>(choice);
  return index < names.size() ? names[index] : "unknown";
}

// Returns the choice of that name; nothing if none has it.
template <typename Choice>
std::optional<Choice> ChoiceOf(absl::string_view name) {
  const std::vector<std::string> names = ChoiceNames<Choice>();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) return std::nullopt;
  return static_cast<Choice>(found - names.begin());
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_CHOICE_NAMES_H_
