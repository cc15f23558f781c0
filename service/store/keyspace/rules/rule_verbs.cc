// The verbs that change rules and multipliers: each is checked, waits until
// nobody else changes rules, and then runs on the pool.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/rules/multipliers_change.h"
#include "service/store/keyspace/rules/rule_change.h"
#include "service/store/keyspace/rules/rules_hold.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

absl::Status NothingBoundTo(absl::string_view pattern, absl::string_view what) {
  return WithReason(
      absl::NotFoundError(absl::StrCat("key pattern ", Quoted(pattern), ": ",
                                       what, " bound to it")),
      Reason::kRuleNotFound, {{"key_pattern", pattern}});
}

// Tells the observer what has changed of a pattern's rule.
void Report(const RulesHold& rules, absl::string_view pattern,
            absl::string_view rule) {
  rules.state().Report(
      StoreEvent::kRuleChanged,
      pattern.empty() ? absl::StrCat("default rule ", rule)
                      : absl::StrCat("rule ", rule, " for ", Quoted(pattern)));
}

// Tells the observer what a pattern has, or has no more: "multipliers".
void ReportBinding(const RulesHold& rules, absl::string_view what,
                   absl::string_view pattern) {
  rules.state().Report(StoreEvent::kRuleChanged,
                       absl::StrCat(what, " for ", Quoted(pattern)));
}

// For each verb, Check says what is wrong with a request whatever the namespace
// has, and Change does what it asks for, with the hold.

template <typename Request>
absl::Status Check(const Request& request) {
  return CheckKeyPattern(request.key_pattern());
}

absl::Status Check(const SetRuleRequest& request) {
  if (!request.has_rule()) return absl::InvalidArgumentError("rule: missing");
  return CheckKeyPattern(request.key_pattern());
}

absl::StatusOr<SetRuleReply> Change(const RulesHold& rules,
                                    const SetRuleRequest& request,
                                    const CallContext& context) {
  RETURN_IF_ERROR(BindRule(rules, context, request.key_pattern(),
                           FromProto(request.rule())));
  Report(rules, request.key_pattern(), request.rule().name());
  return SetRuleReply();
}

absl::Status Check(const UnsetRuleRequest& request) {
  if (!request.key_pattern().empty()) {
    return CheckKeyPattern(request.key_pattern());
  }
  return absl::InvalidArgumentError(
      "key_pattern: expected one, got none: the default rule can be changed, "
      "not removed");
}

absl::StatusOr<UnsetRuleReply> Change(const RulesHold& rules,
                                      const UnsetRuleRequest& request,
                                      const CallContext& context) {
  const std::string& pattern = request.key_pattern();
  if (rules.state().Bindings()->Get(pattern) == nullptr) {
    return NothingBoundTo(pattern, "no rule is");
  }
  RETURN_IF_ERROR(ChangeRule(rules, context, pattern, nullptr));
  ReportBinding(rules, "no rule", pattern);
  return UnsetRuleReply();
}

absl::StatusOr<SetHyperparametersReply> Change(
    const RulesHold& rules, const SetHyperparametersRequest& request,
    const CallContext& context) {
  const std::string& pattern = request.key_pattern();
  const SharedRule present = rules.state().Bindings()->Get(pattern);
  if (present == nullptr) return NothingBoundTo(pattern, "no rule is");
  ASSIGN_OR_RETURN(UpdateRule rule,
                   present->With({request.hyperparameters().begin(),
                                  request.hyperparameters().end()}));
  SetHyperparametersReply reply;
  ToProto(rule.spec(), reply.mutable_rule());
  RETURN_IF_ERROR(ChangeRule(rules, context, pattern,
                             MakeRefCounted<BoundRule>(std::move(rule))));
  Report(rules, pattern, reply.rule().name());
  return reply;
}

absl::Status Check(const SetMultipliersRequest& request) {
  if (request.has_multipliers()) return CheckKeyPattern(request.key_pattern());
  return absl::InvalidArgumentError("multipliers: missing");
}

absl::StatusOr<SetMultipliersReply> Change(const RulesHold& rules,
                                           const SetMultipliersRequest& request,
                                           const CallContext& context) {
  RETURN_IF_ERROR(BindMultipliers(rules, context, request.key_pattern(),
                                  FromProto(request.multipliers())));
  ReportBinding(rules, "multipliers", request.key_pattern());
  return SetMultipliersReply();
}

absl::StatusOr<UnsetMultipliersReply> Change(
    const RulesHold& rules, const UnsetMultipliersRequest& request,
    const CallContext& context) {
  const std::string& pattern = request.key_pattern();
  if (!rules.state().Bindings()->multipliers.Get(pattern)) {
    return NothingBoundTo(pattern, "no multipliers are");
  }
  RETURN_IF_ERROR(ChangeMultipliers(rules, context, pattern, nullptr));
  ReportBinding(rules, "no multipliers", pattern);
  return UnsetMultipliersReply();
}

// Whoever hears of the end finds the hold given back.
template <typename Request>
void ChangeRules(NamespaceState& state, Request request, CallContext context,
                 ReplyCallback<ReplyTo<Request>> done) {
  absl::Status status = Check(request);
  if (!status.ok()) return std::move(done)(std::move(status));
  HoldRules(state, context,
            [request = std::move(request), context,
             done = std::move(done)](absl::StatusOr<RulesHold> rules) mutable {
              if (!rules.ok()) return std::move(done)(rules.status());
              absl::StatusOr<ReplyTo<Request>> reply =
                  Change(*rules, request, context);
              rules->Release();
              std::move(done)(std::move(reply));
            });
}

}  // namespace

#define TENSORKV_RULE_VERB(name)                                   \
  void Namespace::name(name##Request request, CallContext context, \
                       ReplyCallback<name##Reply> done) {          \
    ChangeRules(*state_, std::move(request), std::move(context),   \
                std::move(done));                                  \
  }
TENSORKV_RULE_VERB(SetRule)
TENSORKV_RULE_VERB(UnsetRule)
TENSORKV_RULE_VERB(SetHyperparameters)
TENSORKV_RULE_VERB(SetMultipliers)
TENSORKV_RULE_VERB(UnsetMultipliers)
#undef TENSORKV_RULE_VERB

}  // namespace tensorkv
