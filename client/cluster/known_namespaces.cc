#include "client/cluster/known_namespaces.h"

#include "absl/strings/str_cat.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

absl::Status IsOfAnotherKind(const std::string& name_space) {
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          "namespace \"", name_space,
          "\": was deleted and created again, of another kind (mirrored or "
          "not), while the call was made")),
      Reason::kNamespaceReplaced, {{"namespace", name_space}});
}

}  // namespace

KnownNamespace KnownBy(const NamespaceStatus& status) {
  return {.uid = status.uid(),
          .is_mirrored = status.config().mirrored(),
          .mode = FromProto(status.config().mode())};
}

Task<absl::StatusOr<KnownNamespace>> KnownNamespaces::AskAt(
    const std::string& server, const std::string& name_space,
    const CallLimit& limit) {
  DescribeNamespaceRequest describe;
  describe.set_namespace_(name_space);
  const absl::StatusOr<DescribeNamespaceReply> reply =
      co_await servers_.At(server, describe, limit);
  // A caller who may not know does not ask at every call.
  const bool may_not_know = absl::IsPermissionDenied(reply.status());
  if (!may_not_know) CO_RETURN_IF_ERROR(reply.status());
  const KnownNamespace known =
      may_not_know ? KnownNamespace() : KnownBy(reply->status());
  Learn(name_space, known);
  co_return known;
}

Task<absl::StatusOr<KnownNamespace>> KnownNamespaces::KnowAt(
    const std::string& server, const std::string& name_space, uint64_t uid,
    const CallLimit& limit) {
  const std::optional<KnownNamespace> known = Find(name_space);
  const bool will_do =
      known && (uid == 0 || known->uid == 0 || known->uid == uid);
  if (will_do) co_return *known;
  absl::StatusOr<KnownNamespace> told =
      co_await AskAt(server, name_space, limit);
  if (absl::IsNotFound(told.status())) co_return KnownNamespace();
  co_return told;
}

Task<absl::Status> KnownNamespaces::KnowAnew(const std::string& server,
                                             const std::string& name_space,
                                             const CallLimit& limit,
                                             KnownNamespace& known) {
  Forget(name_space);
  const absl::StatusOr<KnownNamespace> told =
      co_await AskAt(server, name_space, limit);
  if (absl::IsNotFound(told.status())) co_return told.status();
  // The call itself tells what is wrong with the server.
  if (!told.ok()) co_return absl::OkStatus();
  if (told->is_mirrored != known.is_mirrored) {
    co_return IsOfAnotherKind(name_space);
  }
  known = *told;
  co_return absl::OkStatus();
}

}  // namespace tensorkv
