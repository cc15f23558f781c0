// The choices of requests as users spell them, on the command line and in
// Python.

#ifndef TENSORKV_CONTRACT_CHOICE_NAMES_H_
#define TENSORKV_CONTRACT_CHOICE_NAMES_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "contract/call_fields.h"
#include "contract/namespace_config.h"

namespace tensorkv {

// `kNames` has the values of an enum by the names that users write, the default
// first. kUnknown has no name.
template <typename Choice>
struct Choices;

template <>
struct Choices<OnExisting> {
  static constexpr std::pair<absl::string_view, OnExisting> kNames[] = {
      {"fail", OnExisting::kFail},
      {"keep", OnExisting::kKeep},
      {"replace", OnExisting::kReplace}};
};

template <>
struct Choices<Mode> {
  static constexpr std::pair<absl::string_view, Mode> kNames[] = {
      {"async", Mode::kAsync},
      {"sync", Mode::kSync},
      {"bounded", Mode::kBounded}};
};

template <>
struct Choices<OnWorkerLoss> {
  static constexpr std::pair<absl::string_view, OnWorkerLoss> kNames[] = {
      {"fail", OnWorkerLoss::kFail}, {"continue", OnWorkerLoss::kContinue}};
};

template <>
struct Choices<Aggregation> {
  static constexpr std::pair<absl::string_view, Aggregation> kNames[] = {
      {"sum", Aggregation::kSum},
      {"median", Aggregation::kMedian},
      {"trimmed_mean", Aggregation::kTrimmedMean}};
};

template <>
struct Choices<OnNonFinite> {
  static constexpr std::pair<absl::string_view, OnNonFinite> kNames[] = {
      {"apply", OnNonFinite::kApply},
      {"count", OnNonFinite::kCount},
      {"skip", OnNonFinite::kSkip},
      {"refuse", OnNonFinite::kRefuse}};
};

template <>
struct Choices<OnLargeNorm> {
  static constexpr std::pair<absl::string_view, OnLargeNorm> kNames[] = {
      {"clip", OnLargeNorm::kClip}, {"refuse", OnLargeNorm::kRefuse}};
};

// Returns the name of `choice`; "unknown" for what only a newer server has.
template <typename Choice>
requires requires { Choices<Choice>::kNames; }
absl::string_view NameOf(Choice choice) {
  for (const auto& [name, each] : Choices<Choice>::kNames) {
    if (each == choice) return name;
  }
  return "unknown";
}

// Returns the choice of that name; nothing if none has it.
template <typename Choice>
std::optional<Choice> ChoiceOf(absl::string_view name) {
  for (const auto& [each, choice] : Choices<Choice>::kNames) {
    if (each == name) return choice;
  }
  return std::nullopt;
}

// Returns the names of all choices, the default first.
template <typename Choice>
std::vector<std::string> ChoiceNames() {
  std::vector<std::string> names;
  for (const auto& [name, choice] : Choices<Choice>::kNames) {
    names.emplace_back(name);
  }
  return names;
}

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_CHOICE_NAMES_H_
