#include "service/store/rule_bindings.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "service/store/names.h"

namespace tensorkv {

RuleBindings::RuleBindings(SharedRule default_rule) {
  bindings_.push_back({"", std::move(default_rule), nullptr});
}

const SharedRule& RuleBindings::Find(absl::string_view key) const {
  for (size_t i = bindings_.size() - 1; i > 0; --i) {
    if (MatchesGlob(bindings_[i].pattern, key)) return bindings_[i].rule;
  }
  return bindings_.front().rule;
}

SharedRule RuleBindings::Get(absl::string_view pattern) const {
  for (const Binding& binding : bindings_) {
    if (binding.pattern == pattern) return binding.rule;
  }
  return nullptr;
}

absl::Status RuleBindings::Set(absl::string_view pattern, SharedRule rule) {
  for (Binding& binding : bindings_) {
    if (binding.pattern != pattern) continue;
    binding.rule = std::move(rule);
    return absl::OkStatus();
  }
  if (bindings_.size() > kMaxPatterns) {
    return absl::ResourceExhaustedError(
        absl::StrCat("key pattern ", Quoted(pattern), ": expected at most ",
                     kMaxPatterns, " patterns in a namespace, got one more"));
  }
  bindings_.push_back({std::string(pattern), std::move(rule), nullptr});
  return absl::OkStatus();
}

void RuleBindings::Remove(absl::string_view pattern) {
  if (pattern.empty()) return;
  std::erase_if(bindings_, [&](const Binding& binding) {
    return binding.pattern == pattern;
  });
}

void RuleBindings::Charge(absl::string_view pattern, Reservation overhead) {
  for (Binding& binding : bindings_) {
    if (binding.pattern != pattern) continue;
    binding.overhead = std::make_shared<const Reservation>(std::move(overhead));
  }
}

std::vector<RuleBinding> RuleBindings::List() const {
  std::vector<RuleBinding> list;
  list.reserve(bindings_.size());
  for (auto it = bindings_.rbegin(); it != bindings_.rend(); ++it) {
    list.push_back({it->pattern, it->rule->spec()});
  }
  return list;
}

}  // namespace tensorkv
