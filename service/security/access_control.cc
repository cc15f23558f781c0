#include "service/security/access_control.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/shown_text.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Returns `parse` applied to the text of a file.
template <typename Parse>
auto ParseFile(const FileText& file, Parse parse)
    -> decltype(parse(std::string())) {
  const auto wrong = [&file](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.option, ": ", file.path, ": ", what));
  };
  // Somebody is writing it, or has lost it. Who wants it to say nothing leaves
  // a comment there.
  if (absl::StripAsciiWhitespace(file.text).empty()) {
    return wrong("expected some text, got none");
  }
  auto parsed = parse(file.text);
  if (parsed.ok()) return parsed;
  return wrong(parsed.status().message());
}

// Callers choose how long what they call a namespace is. A SPIFFE ID has at
// most so many bytes.
constexpr size_t kMaxCallerBytes = 2048;
// The subject of a checkpoint names several namespaces.
constexpr size_t kMaxSubjectBytes = 16 * kMaxNamespaceBytes;

std::string LineOf(Method method, absl::string_view subject,
                   const Caller& caller, const absl::Status& outcome) {
  return absl::StrCat(
      "caller=", Quoted(caller.name, kMaxCallerBytes),
      " method=", NameOf(method),
      subject.empty()
          ? ""
          : absl::StrCat(" namespace=", Quoted(subject, kMaxSubjectBytes)),
      " outcome=", absl::StatusCodeToString(outcome.code()),
      caller.trace.empty() ? "" : absl::StrCat(" trace=", caller.trace));
}

}  // namespace

AccessControl::AccessControl(Options options)
    : options_(std::move(options)),
      rules_(std::make_shared<Rules>(Rules{.policy = Policy()})) {}

std::vector<WatchedFile> AccessControl::files() const {
  return {{"policy_file", options_.policy_file},
          {"token_file", options_.token_file}};
}

absl::Status AccessControl::Load(const std::vector<FileText>& texts) {
  auto rules = std::make_shared<Rules>();
  if (!texts[0].path.empty()) {
    ASSIGN_OR_RETURN(rules->policy, ParseFile(texts[0], Policy::Parse));
  }
  if (!texts[1].path.empty()) {
    ASSIGN_OR_RETURN(rules->tokens, ParseFile(texts[1], TokenFile::Parse));
  }
  MutexLock lock(&mutex_);
  rules_ = std::move(rules);
  return absl::OkStatus();
}

absl::Status AccessControl::Reload() {
  ASSIGN_OR_RETURN(const std::vector<FileText> texts, ReadFiles(files()));
  return Load(texts);
}

std::shared_ptr<const AccessControl::Rules> AccessControl::rules() const {
  if (options_.policy_file.empty() && options_.token_file.empty()) {
    static const auto* const none = new Rules;
    return {std::shared_ptr<const Rules>(), none};  // without a count of users
  }
  MutexLock lock(&mutex_);
  return rules_;
}

absl::Status AccessControl::AdmitUnixUser(uint32_t user) const {
  const std::shared_ptr<const Rules> rules = this->rules();
  if (!rules->policy || rules->policy->AllowsUnixUser(user)) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "expected a user of the policy's unix_users, got uid ", user));
}

absl::Status AccessControl::Identify(Method method, const Peer& peer,
                                     Caller& caller) const {
  const std::shared_ptr<const Rules> rules = this->rules();
  absl::StatusOr<std::string> identity = IdentityOf(peer, rules->tokens);
  if (identity.ok() && rules->policy && rules->policy->IsFront(*identity)) {
    identity = ForwardedIdentityOf(peer);
  }
  if (!identity.ok()) {
    options_.on_refused(
        method, [&] { return LineOf(method, "", caller, identity.status()); });
    return identity.status();
  }
  caller.name = *std::move(identity);
  if (!rules->policy) return absl::OkStatus();
  // The least right will do for what is of no namespace.
  const Scope scope = ScopeOf(method);
  const Right right =
      scope == Scope::kSomewhere ? Right::kWatch : RightOf(method);
  const bool is_allowed =
      scope == Scope::kServer
          ? rules->policy->AllowsForServer(right, caller.name)
          : rules->policy->AllowsSomewhere(right, caller.name);
  return is_allowed ? absl::OkStatus() : Refuse(method, right, "", caller);
}

absl::StatusOr<CallerQuotas::Share> AccessControl::TakeShare(
    const Caller& caller, const CallerLoad& load,
    absl::FunctionRef<std::string()> address) const {
  const std::shared_ptr<const Rules> rules = this->rules();
  if (!rules->policy || !rules->policy->has_quotas()) {
    return CallerQuotas::Share();
  }
  const CallerLoad quota = rules->policy->QuotaOf(caller.name);
  if (quota == CallerLoad()) return CallerQuotas::Share();
  std::string who = caller.name;
  if (who == kAnonymous) absl::StrAppend(&who, " ", address());
  return quotas_.TakeShare(std::move(who), quota, load);
}

bool AccessControl::Allows(Method method, absl::string_view name_space,
                           const Caller& caller) const {
  const std::shared_ptr<const Rules> rules = this->rules();
  return !rules->policy ||
         rules->policy->AllowsIn(name_space, RightOf(method), caller.name);
}

absl::Status AccessControl::Admit(const StagedCall& call) const {
  const std::shared_ptr<const Rules> rules = this->rules();
  if (!rules->policy) return absl::OkStatus();
  const auto lacks = [&](Right right) {
    return !rules->policy->AllowsIn(call.name_space, right, call.caller.name);
  };
  const Right own = RightOf(call.method);
  const bool lacks_own = lacks(own);
  if (!lacks_own && !(call.publishes && lacks(Right::kPublish))) {
    return absl::OkStatus();
  }
  return Refuse(call.method, lacks_own ? own : Right::kPublish,
                call.name_space.empty() ? kDefaultNamespace : call.name_space,
                call.caller);
}

absl::Status AccessControl::Refuse(Method method, Right lacking,
                                   absl::string_view name_space,
                                   const Caller& caller) const {
  const char* const right = NameOf(lacking);
  const std::string where =
      name_space.empty() ? ""
                         : absl::StrCat(" in namespace ",
                                        Quoted(name_space, kMaxNamespaceBytes));
  const absl::Status status =
      caller.name == kAnonymous
          ? WithReason(absl::UnauthenticatedError(absl::StrCat(
                           NameOf(method),
                           ": expected a caller with an identity: a client "
                           "certificate, a token or a Unix socket")),
                       Reason::kUnauthenticated)
          : WithReason(absl::PermissionDeniedError(absl::StrCat(
                           NameOf(method), ": caller ",
                           Quoted(caller.name, kMaxNamespaceBytes),
                           " lacks the right \"", right, "\"", where)),
                       Reason::kPermissionDenied,
                       {{"namespace", name_space}, {"right", right}});
  options_.on_refused(
      method, [&] { return LineOf(method, name_space, caller, status); });
  return status;
}

void AccessControl::Audit(Method method, absl::string_view subject,
                          const Caller& caller,
                          const absl::Status& outcome) const {
  if (RightOf(method) != Right::kAdmin) return;
  if (caller.name == kAnonymous && !rules()->policy) return;
  if (subject.empty() && ScopeOf(method) == Scope::kNamespace) {
    subject = kDefaultNamespace;
  }
  options_.on_audit(
      absl::StrCat("audit: ", LineOf(method, subject, caller, outcome)));
}

std::string AccessControl::Summary() const {
  const std::shared_ptr<const Rules> rules = this->rules();
  return absl::StrCat(
      "grants=", rules->policy ? rules->policy->num_grants() : 0,
      " tokens=", rules->tokens.size());
}

}  // namespace tensorkv
