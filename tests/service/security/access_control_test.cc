#include "service/security/access_control.h"

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/bearer_token.h"
#include "contract/reason.h"
#include "contract/retry_delay.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "service/security/caller_quotas.h"
#include "service/security/identity.h"
#include "service/security/policy.h"
#include "service/security/token_file.h"
#include "tests/testing/reason_matchers.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::IsOkAndHolds;
using ::testing::Not;
using testing::StatusIs;

std::string LineOf(const std::string& name, const std::string& token) {
  const TokenDigest digest = DigestOf(token);
  return absl::StrCat(
      name, " ",
      absl::BytesToHexString(
          {reinterpret_cast<const char*>(digest.data()), digest.size()}),
      "\n");
}

TEST(BearerTokenTest, DigestIsSha256AndTokensDiffer) {
  // The digest of "abc" in FIPS 180-2.
  EXPECT_THAT(
      LineOf("n", "abc"),
      HasSubstr(
          "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
  EXPECT_NE(NewBearerToken(), NewBearerToken());
  EXPECT_GE(NewBearerToken().size(), 43u);
}

TEST(TokenFileTest, KnowsTokensByTheirDigests) {
  ASSERT_OK_AND_ASSIGN(const TokenFile file,
                       TokenFile::Parse(absl::StrCat(
                           "# team\n\n", LineOf("alice", "a1"), "  ",
                           LineOf("bob", "b"), LineOf("alice", "a2"))));

  EXPECT_EQ(file.size(), 3u);
  EXPECT_EQ(file.NameOf("a1"), "alice");
  EXPECT_EQ(file.NameOf("a2"), "alice");
  EXPECT_EQ(file.NameOf("b"), "bob");
  EXPECT_EQ(file.NameOf(""), std::nullopt);
  EXPECT_EQ(file.NameOf("a"), std::nullopt);
}

TEST(TokenFileTest, ErrorsNameTheLineAndNotWhatIsInIt) {
  const std::string good = LineOf("bob", "b");
  for (const std::string& bad :
       {std::string("alice s3cret"), std::string("s3cret"),
        absl::StrCat("alice s3cret ", good),
        absl::StrCat("alice ", std::string(64, 'g')),
        absl::StrCat("alice ", std::string(63, 'a'))}) {
    const absl::Status status =
        TokenFile::Parse(absl::StrCat(good, bad)).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("line 2: expected a name")))
        << bad;
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("s3cret")));
  }
}

struct WrongPolicy {
  const char* text;
  const char* error;
};

TEST(PolicyTest, ErrorsNameTheLineOrTheGrant) {
  for (const WrongPolicy& wrong : {
           WrongPolicy{"grants {\n  caller: \"x\" }", "line 2"},
           {"grants { callers: \"x\" namespaces: \"*\" role: OWNER }",
            "line 1"},
           {"grants { callers: \"x\" namespaces: \"*\" }", "grant 1: role"},
           {"grants { callers: \"x\" role: READ }", "grant 1: namespaces"},
           {"grants { namespaces: \"*\" role: READ }", "grant 1: callers"},
           {"grants { callers: \"\" namespaces: \"*\" role: READ }",
            "grant 1: callers"},
       }) {
    EXPECT_THAT(
        Policy::Parse(wrong.text),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(wrong.error)))
        << wrong.text;
  }
}

TEST(PolicyTest, FrontsAreHoldersOfCertificatesOrTokensOrLocal) {
  const auto parse = [](const char* front) {
    return Policy::Parse(absl::StrCat("fronts: \"", front, "\"")).status();
  };
  for (const char* good : {"unix", "dns:front.*", "token:front"}) {
    EXPECT_OK(parse(good));
  }
  for (const char* wrong : {"*", "anonymous", "u*", "", "?nix"}) {
    EXPECT_THAT(parse(wrong), StatusIs(absl::StatusCode::kInvalidArgument))
        << wrong;
  }
}

TEST(PolicyTest, UsersAreNoCallers) {
  EXPECT_THAT(
      Policy::Parse("quotas { callers: \"uid:*\" max_calls: 4 }"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("unix_users")));
}

constexpr char kPolicy[] = R"(
grants { callers: "token:reader" namespaces: "team/*" role: READ }
grants { callers: "spiffe://a/train/*" namespaces: "team/*" role: PUSH }
grants { callers: "dns:*" callers: "unix" namespaces: "*" role: ADMIN }
grants { callers: "*" namespaces: "public" role: READ }
grants { callers: "token:local" namespaces: "default" role: ADMIN }
)";

TEST(PolicyTest, GrantsRightsInNamespaces) {
  ASSERT_OK_AND_ASSIGN(const Policy policy, Policy::Parse(kPolicy));
  struct Row {
    const char* caller;
    const char* name_space;
    int right;  // the highest
  };
  for (const Row& row : {
           Row{"token:reader", "team/a", 1},
           {"token:reader", "team", 0},
           {"token:reader", "", 0},
           {"spiffe://a/train/1", "team/a", 2},
           {"spiffe://a/other", "team/a", 0},
           {"dns:ops", "team/a", 3},
           {"unix", "anything", 3},
           {"san:b", "anything", 0},
           {"san:b", "public", 1},
           {"token:local", "", 3},
           {"anonymous", "public", 0},
       }) {
    for (int right = 1; right <= 3; ++right) {
      EXPECT_EQ(policy.AllowsIn(row.name_space, static_cast<Right>(right),
                                row.caller),
                right <= row.right)
          << row.caller << " " << row.name_space << " " << right;
    }
  }
  EXPECT_TRUE(policy.AllowsForServer(Right::kAdmin, "unix"));
  EXPECT_FALSE(policy.AllowsForServer(Right::kAdmin, "token:local"));
  EXPECT_TRUE(policy.AllowsSomewhere(Right::kAdmin, "token:local"));
  EXPECT_FALSE(policy.AllowsSomewhere(Right::kRead, "anonymous"));
}

TEST(PolicyTest, WhoeverMayReadMayWatchAndNotTheOtherWayRound) {
  ASSERT_OK_AND_ASSIGN(const Policy policy, Policy::Parse(R"(
    grants { callers: "token:w" namespaces: "n" role: WATCH }
    grants { callers: "token:r" namespaces: "n" role: READ })"));

  for (const char* caller : {"token:w", "token:r"}) {
    EXPECT_TRUE(policy.AllowsIn("n", Right::kWatch, caller));
    EXPECT_FALSE(policy.AllowsIn("m", Right::kWatch, caller));
    EXPECT_FALSE(policy.AllowsIn("n", Right::kPush, caller));
    EXPECT_EQ(policy.AllowsIn("n", Right::kRead, caller),
              caller == absl::string_view("token:r"));
  }
}

TEST(PolicyTest, RolesAddUp) {
  ASSERT_OK_AND_ASSIGN(const Policy policy, Policy::Parse(R"(
    grants { callers: "dns:both" namespaces: "*" role: [PUSH, LEASE] }
    grants { callers: "dns:publisher" namespaces: "*" role: PUBLISH })"));

  for (const auto& [caller, right, is_allowed] :
       {std::tuple("dns:both", Right::kPush, true),
        std::tuple("dns:both", Right::kLease, true),
        std::tuple("dns:both", Right::kPublish, false),
        std::tuple("dns:publisher", Right::kWatch, true),
        std::tuple("dns:publisher", Right::kRead, true),
        std::tuple("dns:publisher", Right::kLease, true),
        std::tuple("dns:publisher", Right::kPublish, true),
        std::tuple("dns:publisher", Right::kPush, false)}) {
    EXPECT_EQ(policy.AllowsIn("n", right, caller), is_allowed)
        << caller << " " << NameOf(right);
  }
  EXPECT_THAT(Policy::Parse("grants { callers: \"unix\" namespaces: \"*\" }"),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("role")));
}

TEST(PolicyTest, AnonymousCallersAreMeantByTheirNameAlone) {
  ASSERT_OK_AND_ASSIGN(
      const Policy policy,
      Policy::Parse(
          R"(grants { callers: "anonymous" namespaces: "*" role: READ })"));

  EXPECT_TRUE(policy.AllowsIn("n", Right::kRead, kAnonymous));
  EXPECT_FALSE(policy.AllowsIn("n", Right::kPush, kAnonymous));
}

TEST(PolicyTest, FirstQuotaThatNamesTheCallerCounts) {
  ASSERT_OK_AND_ASSIGN(const Policy policy, Policy::Parse(R"(
    quotas { callers: "token:bulk" callers: "unix" max_bytes: 9 }
    quotas { callers: "*" max_calls: 2 max_streams: 1 })"));

  EXPECT_EQ(policy.QuotaOf("unix"), CallerLoad({.bytes = 9}));
  EXPECT_EQ(policy.QuotaOf("dns:a"), CallerLoad({.calls = 2, .streams = 1}));
  EXPECT_EQ(policy.QuotaOf(kAnonymous), CallerLoad());
  EXPECT_THAT(Policy::Parse("quotas { max_calls: 1 }"),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("quota 1: callers")));
}

class CallerQuotasTest : public ::testing::Test {
 protected:
  absl::StatusOr<CallerQuotas::Share> Take(const char* caller,
                                           const CallerLoad& load) {
    return quotas_.TakeShare(caller, {.calls = 2, .streams = 1, .bytes = 100},
                             load);
  }

  CallerQuotas quotas_;
};

TEST_F(CallerQuotasTest, CallersHaveEachWhatTheirQuotaAllows) {
  ASSERT_OK_AND_ASSIGN(auto first, Take("a", {.calls = 1, .bytes = 60}));
  ASSERT_OK_AND_ASSIGN(auto second, Take("a", {.calls = 1}));

  const absl::Status third = Take("a", {.calls = 1}).status();

  EXPECT_THAT(third, StatusIs(absl::StatusCode::kResourceExhausted,
                              HasSubstr("at most 2 calls under way")));
  EXPECT_THAT(third, testing::HasReason(Reason::kLimitReached));
  EXPECT_EQ(RetryDelayOf(third), kQuotaRetryDelay);
  EXPECT_OK(Take("b", {.calls = 1, .bytes = 100}).status());
  EXPECT_OK(Take("a", {.streams = 1}).status());
  second.Release();
  EXPECT_OK(Take("a", {.calls = 1}).status());
}

TEST_F(CallerQuotasTest, BytesThatCanNeverFitAreNotToBeTriedAgain) {
  ASSERT_OK_AND_ASSIGN(auto stream, Take("a", {.streams = 1}));
  ASSERT_OK(stream.Add(60));

  EXPECT_EQ(RetryDelayOf(stream.Add(41)), kQuotaRetryDelay);
  EXPECT_EQ(RetryDelayOf(stream.Add(101)), std::nullopt);
  EXPECT_OK(stream.Add(40));

  stream = CallerQuotas::Share();
  EXPECT_OK(Take("a", {.calls = 1, .bytes = 100}).status());
}

TEST(IdentityTest, TokenThenCertificateThenSocket) {
  ASSERT_OK_AND_ASSIGN(const TokenFile tokens,
                       TokenFile::Parse(LineOf("alice", "s3cret")));
  Peer peer;
  EXPECT_THAT(IdentityOf(peer, tokens), IsOkAndHolds("anonymous"));
  peer.is_local = true;
  peer.is_private = true;
  EXPECT_THAT(IdentityOf(peer, tokens), IsOkAndHolds("unix"));
  peer.certificate = "spiffe://a/b";
  EXPECT_THAT(IdentityOf(peer, tokens), IsOkAndHolds("spiffe://a/b"));
  for (const char* good : {"Bearer s3cret", "bearer s3cret"}) {
    peer.authorization = good;
    EXPECT_THAT(IdentityOf(peer, tokens), IsOkAndHolds("token:alice"));
  }
}

TEST(IdentityTest, FrontsNameTheHolderOfOneCertificate) {
  Peer front = {.is_private = true, .certificate = "dns:front"};
  EXPECT_THAT(ForwardedIdentityOf(front), IsOkAndHolds("anonymous"));
  for (const char* name : {"cn:a", "spiffe://a/b", "dns:a.b", "san:x"}) {
    front.client = name;
    EXPECT_THAT(ForwardedIdentityOf(front), IsOkAndHolds(name));
  }
  for (const char* wrong : {"", "cn:", "a", "token:a", "unix", "anonymous",
                            "cn:evil,cn:a", "cn:a\nb"}) {
    front.client = wrong;
    EXPECT_THAT(ForwardedIdentityOf(front),
                StatusIs(absl::StatusCode::kUnauthenticated))
        << wrong;
  }
}

TEST(IdentityTest, ClaimsThatDoNotHoldAreRefused) {
  ASSERT_OK_AND_ASSIGN(
      const TokenFile tokens,
      TokenFile::Parse(LineOf("alice", "s3cret") + LineOf("empty", "")));
  const std::vector<Peer> wrong = {
      {.authorization = "Bearer s3cret"},  // in plain text
      {.is_private = true, .is_local = true, .authorization = "Bearer s3cre"},
      {.is_private = true, .authorization = "Bearer "},
      {.is_private = true, .authorization = "Basic s3cret"},
      {.is_private = true, .authorization = "Bearer s3cret,Bearer s3cret"},
      {.is_private = true, .certificate = "dns:a\nb"},
      {.is_private = true, .certificate = "", .is_local = true},
  };
  for (const Peer& peer : wrong) {
    const absl::Status status = IdentityOf(peer, tokens).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kUnauthenticated));
    EXPECT_THAT(status, testing::HasReason(Reason::kUnauthenticated));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("s3cre")));
  }
}

class AccessControlTest : public ::testing::Test {
 protected:
  AccessControlTest() {
    Write("policy", kPolicy);
    Write("tokens", LineOf("reader", "r"));
  }

  std::string Path(const std::string& name) const {
    return ::testing::TempDir() + "/access_control_" + name;
  }
  void Write(const std::string& name, const std::string& text) {
    std::ofstream(Path(name)) << text;
  }
  absl::Status Admit(Method method, const std::string& token) {
    return access_.Identify(
        method, {.is_private = true, .authorization = "Bearer " + token},
        caller_);
  }

  std::vector<std::string> made_;
  std::vector<std::string> refused_;
  AccessControl access_{
      {.policy_file = Path("policy"),
       .token_file = Path("tokens"),
       .on_audit = [this](const std::string& line) { made_.push_back(line); },
       .on_refused =
           [this](Method, absl::FunctionRef<std::string()> line) {
             refused_.push_back(line());
           }}};
  Caller caller_;
};

TEST_F(AccessControlTest, RefusesEverythingUntilItsFilesAreRead) {
  EXPECT_THAT(access_.Identify(Method::kStat, {.is_local = true}, caller_),
              StatusIs(absl::StatusCode::kPermissionDenied));

  ASSERT_OK(access_.Reload());

  EXPECT_OK(access_.Identify(Method::kStat, {.is_local = true}, caller_));
  EXPECT_EQ(access_.Summary(), "grants=5 tokens=1");
}

TEST_F(AccessControlTest, HeaderCountsOfAFrontAlone) {
  Write("policy",
        "fronts: \"dns:front\" "
        "grants { callers: \"*\" namespaces: \"*\" role: ADMIN }");
  ASSERT_OK(access_.Reload());
  for (const auto& [certificate, caller] :
       {std::pair("dns:front", "cn:alice"), {"dns:other", "dns:other"}}) {
    EXPECT_OK(access_.Identify(
        Method::kStat, {.certificate = certificate, .client = "cn:alice"},
        caller_));
    EXPECT_EQ(caller_.name, caller);
  }
}

TEST_F(AccessControlTest, ChecksTheMethodAndThenTheNamespace) {
  ASSERT_OK(access_.Reload());
  ASSERT_OK(Admit(Method::kPull, "r"));

  EXPECT_EQ(caller_.name, "token:reader");
  EXPECT_OK(access_.Admit(StagedCall(Method::kPull, "team/a", caller_)));
  const absl::Status elsewhere =
      access_.Admit(StagedCall(Method::kPull, "other", caller_));
  EXPECT_THAT(elsewhere,
              StatusIs(absl::StatusCode::kPermissionDenied,
                       "Pull: caller \"token:reader\" lacks the right \"read\" "
                       "in namespace \"other\""));
  EXPECT_THAT(elsewhere, testing::HasReason(Reason::kPermissionDenied));
  EXPECT_THAT(Admit(Method::kPush, "r"),
              StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_THAT(access_.Identify(Method::kPull, {}, caller_),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(refused_,
              ElementsAre("caller=\"token:reader\" method=Pull "
                          "namespace=\"other\" outcome=PERMISSION_DENIED",
                          "caller=\"token:reader\" method=Push "
                          "outcome=PERMISSION_DENIED",
                          "caller=\"anonymous\" method=Pull "
                          "outcome=UNAUTHENTICATED"));
}

TEST_F(AccessControlTest, LongNamesAreCut) {
  ASSERT_OK(access_.Reload());
  const std::string name(1 << 20, '\n');

  const absl::Status status = access_.Admit(
      StagedCall(Method::kDelete, name, Caller{.name = "token:reader"}));
  access_.Audit(Method::kDelete, name, {.name = "unix"}, status);

  EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied));
  EXPECT_LT(status.message().size(), 1000u);
  ASSERT_EQ(made_.size() + refused_.size(), 2u);
  EXPECT_LT(made_[0].size(), 10000u);
  EXPECT_LT(refused_[0].size(), 10000u);
}

// Whoever is refused must not move the cursor of whoever reads of it.
TEST_F(AccessControlTest, NamesAreShownWithoutControlCharacters) {
  ASSERT_OK(access_.Reload());

  const absl::Status status = access_.Admit(
      StagedCall(Method::kDelete, "\u009b2J", Caller{.name = "token:reader"}));

  EXPECT_THAT(status.message(), HasSubstr("in namespace \"\\302\\2332J\""));
  EXPECT_THAT(refused_, ElementsAre(HasSubstr("=\"\\302\\2332J\" outcome")));
}

TEST_F(AccessControlTest, AuditsTheCallsOfAdmins) {
  ASSERT_OK(access_.Reload());

  access_.Audit(Method::kPush, "n", {.name = "unix"}, absl::OkStatus());
  access_.Audit(Method::kSetRule, "n\n", {.name = "unix", .trace = "a1-b2"},
                absl::NotFoundError("no"));

  EXPECT_THAT(made_,
              ElementsAre("audit: caller=\"unix\" method=SetRule "
                          "namespace=\"n\\n\" outcome=NOT_FOUND trace=a1-b2"));
}

TEST_F(AccessControlTest, WrongFilesChangeNothing) {
  ASSERT_OK(access_.Reload());
  Write("tokens", LineOf("writer", "w"));
  Write("policy", "grants {");

  EXPECT_THAT(access_.Reload(), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("policy_file: ")));
  Write("policy", "s3cret");
  EXPECT_THAT(std::string(access_.Reload().message()),
              Not(HasSubstr("s3cret")));
  EXPECT_OK(Admit(Method::kPull, "r"));

  Write("policy", kPolicy);
  EXPECT_OK(access_.Reload());
  EXPECT_THAT(Admit(Method::kPull, "r"),
              StatusIs(absl::StatusCode::kUnauthenticated));
  EXPECT_THAT(made_, IsEmpty());
}

}  // namespace
}  // namespace tensorkv
