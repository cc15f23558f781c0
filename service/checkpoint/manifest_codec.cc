#include "service/checkpoint/manifest_codec.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "service/store/namespace_status.h"

namespace tensorkv {
namespace {

absl::Status Malformed(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("manifest: ", what));
}

// --- Answers -----------------------------------------------------------------

void AnswerToProto(const absl::Status& status, v1::SavedCall* proto) {
  v1::SavedCall::Error* const error = proto->mutable_error();
  error->set_code(static_cast<int>(status.code()));
  error->set_message(std::string(status.message()));
  if (const auto info = status.GetPayload(kErrorInfoTypeUrl)) {
    error->set_error_info(std::string(*info));
  }
}

void ReplyToProto(std::monostate, v1::SavedCall* proto) {
  proto->mutable_done();
}
void ReplyToProto(const InitReply& reply, v1::SavedCall* proto) {
  ToProto(reply, proto->mutable_init());
}
void ReplyToProto(const PushReply& reply, v1::SavedCall* proto) {
  ToProto(reply, proto->mutable_push());
}
void ReplyToProto(const DeleteReply& reply, v1::SavedCall* proto) {
  *proto->mutable_delete_() = reply;
}
void ReplyToProto(const SetHyperparametersReply& reply, v1::SavedCall* proto) {
  *proto->mutable_rule() = reply.rule();
}
void ReplyToProto(const CreateNamespaceReply& reply, v1::SavedCall* proto) {
  *proto->mutable_create_namespace() = reply;
}
void ReplyToProto(const JoinReply& reply, v1::SavedCall* proto) {
  *proto->mutable_join() = reply;
}
void ReplyToProto(const UpdateNamespaceReply& reply, v1::SavedCall* proto) {
  *proto->mutable_update_namespace() = reply;
}
void ReplyToProto(const CreateSnapshotReply& reply, v1::SavedCall* proto) {
  *proto->mutable_create_snapshot() = reply;
}
void ReplyToProto(const DeleteSnapshotReply& reply, v1::SavedCall* proto) {
  *proto->mutable_delete_snapshot() = reply;
}

absl::Status ErrorOf(const v1::SavedCall::Error& proto) {
  absl::Status status(static_cast<absl::StatusCode>(proto.code()),
                      proto.message());
  if (!proto.error_info().empty()) {
    status.SetPayload(kErrorInfoTypeUrl, absl::Cord(proto.error_info()));
  }
  return status;
}

SetHyperparametersReply ReplyWith(const v1::Rule& rule) {
  SetHyperparametersReply reply;
  *reply.mutable_rule() = rule;
  return reply;
}

// Errors: DataLoss. The outer status tells of those.
absl::Status ReadAnswer(const v1::SavedCall& proto, CallAnswer& answer) {
  switch (proto.answer_case()) {
    case v1::SavedCall::kError:
      answer = ErrorOf(proto.error());
      return answer.ok() ? Malformed("a call with an error that is none")
                         : absl::OkStatus();
    case v1::SavedCall::kDone:
      answer = CallReply(std::monostate());
      return absl::OkStatus();
    case v1::SavedCall::kInit:
      answer = CallReply(FromProto(proto.init()));
      return absl::OkStatus();
    case v1::SavedCall::kPush:
      answer = CallReply(FromProto(proto.push()));
      return absl::OkStatus();
    case v1::SavedCall::kDelete:
      answer = CallReply(proto.delete_());
      return absl::OkStatus();
    case v1::SavedCall::kRule:
      answer = CallReply(ReplyWith(proto.rule()));
      return absl::OkStatus();
    case v1::SavedCall::kCreateNamespace:
      answer = CallReply(proto.create_namespace());
      return absl::OkStatus();
    case v1::SavedCall::kJoin:
      answer = CallReply(proto.join());
      return absl::OkStatus();
    case v1::SavedCall::kUpdateNamespace:
      answer = CallReply(proto.update_namespace());
      return absl::OkStatus();
    case v1::SavedCall::kCreateSnapshot:
      answer = CallReply(proto.create_snapshot());
      return absl::OkStatus();
    case v1::SavedCall::kDeleteSnapshot:
      answer = CallReply(proto.delete_snapshot());
      return absl::OkStatus();
    case v1::SavedCall::ANSWER_NOT_SET:
      break;
  }
  return Malformed("a call without an answer");
}

void CallToProto(const CallSnapshot& call, v1::SavedCall* proto) {
  proto->set_sequence(call.sequence);
  proto->set_fingerprint(call.fingerprint);
  if (call.answer == nullptr) return;
  const CallAnswer& answer = *call.answer;
  if (!answer.ok()) return AnswerToProto(answer.status(), proto);
  std::visit([proto](const auto& reply) { ReplyToProto(reply, proto); },
             *answer);
}

absl::StatusOr<CallSnapshot> CallOf(const v1::SavedCall& proto) {
  CallSnapshot call = {.sequence = proto.sequence(),
                       .fingerprint = proto.fingerprint()};
  if (proto.answer_case() == v1::SavedCall::ANSWER_NOT_SET) return call;
  auto answer = std::make_shared<CallAnswer>(CallReply());
  RETURN_IF_ERROR(ReadAnswer(proto, *answer));
  call.answer = std::move(answer);
  return call;
}

void ClientToProto(const ClientSnapshot& client, v1::SavedClient* proto) {
  proto->set_caller(client.caller);
  proto->set_client_id(client.client_id);
  proto->set_answered_below(client.answered_below);
  for (const CallSnapshot& call : client.calls) {
    CallToProto(call, proto->add_calls());
  }
}

absl::StatusOr<ClientSnapshot> ClientOf(const v1::SavedClient& proto) {
  ClientSnapshot client = {.caller = proto.caller(),
                           .client_id = proto.client_id(),
                           .answered_below = proto.answered_below()};
  for (const v1::SavedCall& call : proto.calls()) {
    ASSIGN_OR_RETURN(client.calls.emplace_back(), CallOf(call));
  }
  return client;
}

// --- The rest ----------------------------------------------------------------

void WorkerToProto(const WorkerSnapshot& worker, v1::SavedWorker* proto) {
  proto->set_name(worker.name);
  SetWorker(worker.worker, proto->mutable_worker());
  proto->set_left(worker.has_left);
  proto->set_step(worker.step);
  proto->set_first_step(worker.first_step);
  proto->set_order(worker.order);
  proto->set_step_told(worker.has_told_step);
  proto->set_repeating(worker.repeats_step);
}

WorkerSnapshot WorkerOf(const v1::SavedWorker& proto) {
  return {.name = proto.name(),
          .worker = {proto.worker().rank(), proto.worker().epoch()},
          .has_left = proto.left(),
          .step = proto.step(),
          .first_step = proto.first_step(),
          .order = proto.order(),
          .has_told_step = proto.step_told(),
          .repeats_step = proto.repeating()};
}

void ContributionToProto(const Contributor& by, Step step,
                         v1::SavedContribution* proto) {
  proto->set_rank(by.rank);
  proto->set_identity(by.identity);
  proto->set_step(step);
}

Contributor ContributorOf(const v1::SavedContribution& proto) {
  return {proto.rank(), proto.identity()};
}

}  // namespace

void ToProto(const NamespaceSnapshot& snapshot, v1::NamespaceManifest* proto) {
  proto->set_name(snapshot.name);
  proto->set_uid(snapshot.uid);
  proto->set_revision(snapshot.revision);
  proto->set_max_version(snapshot.max_version);
  proto->set_restored_versions(snapshot.restored_versions);
  ToProto(snapshot.config, proto->mutable_config());
  for (const FormerQuorum& former : snapshot.former_quorums) {
    v1::SavedQuorum* const saved = proto->add_former_quorums();
    saved->set_last_step(former.last_step);
    saved->set_quorum(former.quorum);
  }
  for (const RuleBinding& binding : snapshot.rules) {
    ToProto(binding, proto->add_rules());
  }
  for (const MultipliersBinding& binding : snapshot.multipliers) {
    ToProto(binding, proto->add_multipliers());
  }
  for (const WorkerSnapshot& worker : snapshot.workers) {
    WorkerToProto(worker, proto->add_workers());
  }
  proto->set_max_closed_step(snapshot.max_closed_step);
  for (const ClientSnapshot& client : snapshot.clients) {
    ClientToProto(client, proto->add_clients());
  }
  proto->set_only_changes(snapshot.has_only_changes);
  proto->mutable_removed_keys()->Add(snapshot.removed_keys.begin(),
                                     snapshot.removed_keys.end());
  for (const auto& [name, latest] : snapshot.series) {
    v1::SavedSeries* const series = proto->add_series();
    series->set_name(name);
    series->set_latest(latest);
  }
}

absl::StatusOr<NamespaceSnapshot> FromProto(
    const v1::NamespaceManifest& proto) {
  NamespaceSnapshot snapshot;
  snapshot.name = proto.name();
  snapshot.uid = proto.uid();
  snapshot.revision = proto.revision();
  snapshot.max_version = proto.max_version();
  snapshot.restored_versions = proto.restored_versions();
  ASSIGN_OR_RETURN(snapshot.config, KnownConfig(proto.config()));
  for (const v1::SavedQuorum& former : proto.former_quorums()) {
    snapshot.former_quorums.push_back({former.last_step(), former.quorum()});
  }
  for (const v1::RuleBinding& rule : proto.rules()) {
    snapshot.rules.push_back({rule.key_pattern(), FromProto(rule.rule())});
  }
  for (const v1::MultipliersBinding& bound : proto.multipliers()) {
    snapshot.multipliers.push_back(
        {bound.key_pattern(), FromProto(bound.multipliers())});
  }
  for (const v1::SavedWorker& worker : proto.workers()) {
    snapshot.workers.push_back(WorkerOf(worker));
  }
  snapshot.max_closed_step = proto.max_closed_step();
  for (const v1::SavedClient& client : proto.clients()) {
    ASSIGN_OR_RETURN(snapshot.clients.emplace_back(), ClientOf(client));
  }
  snapshot.has_only_changes = proto.only_changes();
  snapshot.removed_keys.assign(proto.removed_keys().begin(),
                               proto.removed_keys().end());
  for (const v1::SavedSeries& series : proto.series()) {
    snapshot.series.emplace_back(series.name(), series.latest());
  }
  return snapshot;
}

v1::SavedKey* AddKey(const KeySnapshot& key,
                     RefPtr<const Contributors>& last_contributors,
                     v1::NamespaceManifest* proto) {
  v1::SavedKey* const saved = proto->add_keys();
  saved->set_key(key.key);
  saved->set_version(key.version);
  saved->set_update_count(key.update_count);
  for (const AppliedRound& round : key.rounds) {
    if (round.contributors != last_contributors) {
      last_contributors = round.contributors;
      v1::SavedContributors* const added = proto->add_contributors();
      for (const Contributor& by : round.contributors->by_rank) {
        ContributionToProto(by, 0, added->add_contributors());
      }
    }
    v1::SavedRound* const saved_round = saved->add_rounds();
    saved_round->set_step(round.step);
    saved_round->set_version(round.version);
    saved_round->set_contributors(proto->contributors_size() - 1);
    for (const LateContributor& late : round.late) {
      ContributionToProto(late.by, late.taken_by, saved_round->add_late());
    }
  }
  for (const ContributionSnapshot& each : key.contributions) {
    ContributionToProto(each.by, each.step, saved->add_contributions());
  }
  if (key.first_unsaved != UINT64_MAX) {
    saved->set_first_unsaved_step(key.first_unsaved);
  }
  return saved;
}

absl::StatusOr<KeySnapshot> FromProto(
    const v1::SavedKey& proto,
    const std::vector<RefPtr<const Contributors>>& contributors) {
  KeySnapshot key;
  key.key = proto.key();
  key.version = proto.version();
  key.update_count = proto.update_count();
  for (const v1::SavedRound& round : proto.rounds()) {
    if (round.contributors() >= contributors.size()) {
      return Malformed("a round without contributors");
    }
    AppliedRound& applied = key.rounds.emplace_back();
    applied = {round.step(), round.version(),
               contributors[round.contributors()]};
    for (const v1::SavedContribution& late : round.late()) {
      applied.late.push_back({ContributorOf(late), late.step()});
    }
  }
  for (const v1::SavedContribution& each : proto.contributions()) {
    key.contributions.push_back({ContributorOf(each), each.step()});
  }
  // Callers that read tensors refer to the memory of the value until all are
  // there.
  const auto is_value = [](const v1::SavedTensor& tensor) {
    return tensor.state().empty();
  };
  if (std::count_if(proto.tensors().begin(), proto.tensors().end(), is_value) !=
          1 ||
      !is_value(proto.tensors(0))) {
    return Malformed("a key whose first tensor is not its only value");
  }
  if (proto.first_unsaved_step() != 0) {
    key.first_unsaved = proto.first_unsaved_step();
  }
  return key;
}

std::vector<RefPtr<const Contributors>> ContributorsOf(
    const v1::NamespaceManifest& proto) {
  std::vector<RefPtr<const Contributors>> all;
  for (const v1::SavedContributors& saved : proto.contributors()) {
    std::vector<Contributor> by_rank;
    for (const v1::SavedContribution& each : saved.contributors()) {
      by_rank.push_back(ContributorOf(each));
    }
    all.push_back(MakeRefCounted<Contributors>(std::move(by_rank)));
  }
  return all;
}

absl::StatusOr<uint64_t> SizeBytesOf(const v1::SavedTensor& proto) {
  const absl::StatusOr<DType> dtype = DTypeFromNumber(proto.dtype());
  const absl::StatusOr<Shape> shape = Shape::Create(proto.shape());
  if (dtype.ok() && shape.ok()) return shape->num_elements() * SizeOf(*dtype);
  return Malformed("a tensor without dtype or shape");
}

std::string TensorFileName(int name_space, uint32_t number,
                           absl::string_view kind) {
  return absl::StrFormat("%04d-%05d-%s", name_space, number, kind);
}

}  // namespace tensorkv
