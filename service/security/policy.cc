#include "service/security/policy.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "service/security/identity.h"
#include "service/security/policy.pb.h"
#include "service/store/names.h"
#include "service/store/tensor_store.h"

namespace tensorkv {
namespace {

constexpr absl::string_view kAll = "*";

// Keeps the place of the first error. What the parser says of it quotes the
// text, which may be a file of secrets, given by mistake.
class FirstError final : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string&) override {
    if (!text_.empty()) return;
    text_ = absl::StrCat("line ", line + 1, ", column ", column + 1,
                         ": expected a Policy, as policy.proto has it");
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::Status CheckPatterns(
    absl::string_view what,
    const google::protobuf::RepeatedPtrField<std::string>& patterns) {
  if (patterns.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, ": expected at least one pattern, got none"));
  }
  for (const std::string& pattern : patterns) {
    const absl::Status status = CheckKeyPattern(pattern);
    if (!status.ok() || pattern.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, ": ", Quoted(pattern), " is no pattern"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCallers(
    const google::protobuf::RepeatedPtrField<std::string>& patterns) {
  RETURN_IF_ERROR(CheckPatterns("callers", patterns));
  for (const std::string& pattern : patterns) {
    if (absl::StartsWith(pattern, "uid:")) {
      return absl::InvalidArgumentError(
          absl::StrCat("callers: ", Quoted(pattern),
                       " is nobody: callers by Unix sockets are \"unix\", and "
                       "unix_users says who they may be"));
    }
  }
  return absl::OkStatus();
}

// Errors: InvalidArgument, for patterns that name others than the holders of
// certificates and tokens, and who comes by a Unix socket.
absl::Status CheckFronts(
    const google::protobuf::RepeatedPtrField<std::string>& patterns) {
  RETURN_IF_ERROR(CheckPatterns("fronts", patterns));
  for (const std::string& pattern : patterns) {
    if (pattern == "unix" || absl::StartsWith(pattern, "token:") ||
        IsNameOfCertificate(pattern)) {
      continue;
    }
    return absl::InvalidArgumentError(
        absl::StrCat("fronts: expected \"unix\" or a pattern that begins as "
                     "\"dns:\" does, got ",
                     Quoted(pattern)));
  }
  return absl::OkStatus();
}

absl::Status Check(const security::v1::Grant& grant) {
  RETURN_IF_ERROR(CheckCallers(grant.callers()));
  RETURN_IF_ERROR(CheckPatterns("namespaces", grant.namespaces()));
  if (security::v1::Role_IsValid(grant.role()) &&
      grant.role() != security::v1::ROLE_UNSPECIFIED) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError("role: expected WATCH, READ, PUSH or ADMIN");
}

}  // namespace

Policy::Pattern::Pattern(std::string pattern)
    : text(std::make_unique<const std::string>(std::move(pattern))),
      glob(*text) {
  glob.Compile();
}

bool Policy::Contains(const Patterns& patterns, absl::string_view text) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [text](const Pattern& each) { return *each.text == text; });
}

bool Policy::Matches(const Patterns& patterns, absl::string_view text) {
  return std::any_of(
      patterns.begin(), patterns.end(),
      [text](const Pattern& each) { return each.glob.Matches(text); });
}

absl::StatusOr<Policy> Policy::Parse(const std::string& text) {
  security::v1::Policy message;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &message)) {
    return absl::InvalidArgumentError(error.text());
  }
  Policy policy;
  for (const security::v1::Grant& grant : message.grants()) {
    if (const absl::Status status = Check(grant); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "grant ", policy.num_grants() + 1, ": ", status.message()));
    }
    policy.grants_.push_back(
        {.callers = Patterns(grant.callers().begin(), grant.callers().end()),
         .namespaces =
             Patterns(grant.namespaces().begin(), grant.namespaces().end()),
         .right = static_cast<Right>(grant.role())});
  }
  for (const security::v1::Quota& quota : message.quotas()) {
    if (const absl::Status status = CheckCallers(quota.callers());
        !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "quota ", policy.quotas_.size() + 1, ": ", status.message()));
    }
    policy.quotas_.push_back(
        {.callers = Patterns(quota.callers().begin(), quota.callers().end()),
         .bounds = {.calls = quota.max_calls(),
                    .streams = quota.max_streams(),
                    .bytes = quota.max_bytes()}});
  }
  if (!message.fronts().empty()) {
    RETURN_IF_ERROR(CheckFronts(message.fronts()));
    policy.fronts_ = Patterns(message.fronts().begin(), message.fronts().end());
  }
  policy.unix_users_.assign(message.unix_users().begin(),
                            message.unix_users().end());
  return policy;
}

bool Policy::IsFront(absl::string_view caller) const {
  return Names(fronts_, caller);
}

bool Policy::AllowsUnixUser(uint32_t user) const {
  return unix_users_.empty() ||
         std::find(unix_users_.begin(), unix_users_.end(), user) !=
             unix_users_.end();
}

// A role that is added has to be put in order with the others here.
static_assert(security::v1::Role_MAX == static_cast<int>(Right::kWatch));
static_assert(security::v1::ADMIN == static_cast<int>(Right::kAdmin));
static_assert(security::v1::READ == static_cast<int>(Right::kRead));
static_assert(security::v1::PUSH == static_cast<int>(Right::kPush));

bool Policy::Grant::Has(Right wanted, absl::string_view caller) const {
  const bool has_right =
      wanted == Right::kWatch || (right != Right::kWatch && right >= wanted);
  return has_right && Names(callers, caller);
}

bool Policy::Names(const Patterns& patterns, absl::string_view caller) {
  return caller == kAnonymous ? Contains(patterns, caller)
                              : Matches(patterns, caller);
}

CallerLoad Policy::QuotaOf(absl::string_view caller) const {
  const auto found = std::find_if(
      quotas_.begin(), quotas_.end(),
      [&](const Quota& each) { return Names(each.callers, caller); });
  return found == quotas_.end() ? CallerLoad() : found->bounds;
}

bool Policy::AllowsIn(absl::string_view name_space, Right right,
                      absl::string_view caller) const {
  if (name_space.empty()) name_space = kDefaultNamespace;
  return std::any_of(grants_.begin(), grants_.end(), [&](const Grant& grant) {
    return grant.Has(right, caller) && Matches(grant.namespaces, name_space);
  });
}

bool Policy::AllowsSomewhere(Right right, absl::string_view caller) const {
  return std::any_of(grants_.begin(), grants_.end(), [&](const Grant& grant) {
    return grant.Has(right, caller);
  });
}

bool Policy::AllowsForServer(Right right, absl::string_view caller) const {
  return std::any_of(grants_.begin(), grants_.end(), [&](const Grant& grant) {
    return grant.Has(right, caller) && Contains(grant.namespaces, kAll);
  });
}

}  // namespace tensorkv
