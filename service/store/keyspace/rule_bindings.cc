#include "service/store/keyspace/rule_bindings.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// How many pairs of key and pattern are tried before the caller is asked.
constexpr size_t kMatchesPerTurn = 1024;

}  // namespace

RuleBindings::RuleBindings(SharedRule default_rule) {
  bindings_.push_back({"", std::move(default_rule), nullptr});
}

absl::StatusOr<std::vector<const SharedRule*>> RuleBindings::Find(
    absl::Span<const absl::string_view> keys,
    absl::FunctionRef<absl::Status()> go_on) const {
  std::vector<const SharedRule*> rules(keys.size(), &bindings_.front().rule);
  std::vector<size_t> open(keys.size());  // positions of those without pattern
  std::iota(open.begin(), open.end(), size_t{0});
  size_t num_matches = 0;
  for (size_t i = bindings_.size() - 1; i > 0 && !open.empty(); --i) {
    num_matches += open.size();
    if (num_matches > kMatchesPerTurn) {
      num_matches = 0;
      RETURN_IF_ERROR(go_on());
    }
    const Binding& binding = bindings_[i];
    Glob glob(binding.pattern);
    const auto is_found = [&](size_t position) {
      if (!glob.Matches(keys[position])) return false;
      rules[position] = &binding.rule;
      return true;
    };
    open.erase(std::remove_if(open.begin(), open.end(), is_found), open.end());
  }
  return rules;
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
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "key pattern ", Quoted(pattern), ": expected at most ",
            kMaxPatterns, " patterns in a namespace, got one more")),
        Reason::kLimitReached, {{"limit", kMaxPatterns}});
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
