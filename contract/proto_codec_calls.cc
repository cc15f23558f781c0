#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "contract/proto_codec.h"

namespace tensorkv {

v1::OnExisting EncodeOnExisting(OnExisting on_existing) {
  return static_cast<v1::OnExisting>(static_cast<int>(on_existing) + 1);
}
static_assert(static_cast<int>(OnExisting::kFail) + 1 == v1::ON_EXISTING_FAIL);
static_assert(static_cast<int>(OnExisting::kKeep) + 1 == v1::ON_EXISTING_KEEP);
static_assert(static_cast<int>(OnExisting::kReplace) + 1 ==
              v1::ON_EXISTING_REPLACE);

absl::StatusOr<OnExisting> DecodeOnExisting(v1::OnExisting proto) {
  if (proto == v1::ON_EXISTING_UNSPECIFIED) return OnExisting::kFail;
  if (v1::OnExisting_IsValid(proto)) return static_cast<OnExisting>(proto - 1);
  return absl::InvalidArgumentError(
      absl::StrCat("on_existing: unknown number ", static_cast<int>(proto)));
}

std::string EntryName(int index, absl::string_view key) {
  // Statuses travel in HTTP/2 headers, which are small.
  constexpr size_t kMostShown = 128;
  return absl::StrCat("entry ", index, " (\"",
                      absl::CHexEscape(key.substr(0, kMostShown)),
                      key.size() > kMostShown ? "...\")" : "\")");
}

namespace {

// Have the snapshot that a call has taken, if it has.
template <typename Proto>
std::optional<PublishedSnapshot> PublishedIn(const Proto& proto) {
  if (!proto.has_published()) return std::nullopt;
  return PublishedSnapshot{.number = proto.published().number(),
                           .revision = proto.published().revision(),
                           .parts_missing = proto.published().parts_missing()};
}
template <typename Proto>
void SetPublished(const std::optional<PublishedSnapshot>& published,
                  Proto* proto) {
  if (!published) return;
  proto->mutable_published()->set_number(published->number);
  proto->mutable_published()->set_revision(published->revision);
  proto->mutable_published()->set_parts_missing(published->parts_missing);
}

}  // namespace

InitReply FromProto(const v1::InitResponse& proto) {
  return {.versions = {proto.versions().begin(), proto.versions().end()},
          .published = PublishedIn(proto)};
}
void ToProto(const InitReply& reply, v1::InitResponse* proto) {
  proto->mutable_versions()->Add(reply.versions.begin(), reply.versions.end());
  SetPublished(reply.published, proto);
}

InitReply FromProto(const v1::SetStateResponse& proto) {
  return {.versions = {proto.versions().begin(), proto.versions().end()}};
}
void ToProto(const InitReply& reply, v1::SetStateResponse* proto) {
  proto->mutable_versions()->Add(reply.versions.begin(), reply.versions.end());
}

PushReply FromProto(const v1::PushResponse& proto) {
  PushReply reply;
  reply.results.reserve(proto.results_size());
  for (const v1::PushResult& result : proto.results()) {
    reply.results.push_back(
        {result.version(), result.step(), result.repeated(), result.token()});
  }
  reply.published = PublishedIn(proto);
  return reply;
}
void ToProto(const PushReply& reply, v1::PushResponse* proto) {
  for (const PushResult& result : reply.results) {
    v1::PushResult& out = *proto->add_results();
    out.set_version(result.version);
    out.set_step(result.step);
    out.set_repeated(result.repeated);
    out.set_token(result.token);
  }
  SetPublished(reply.published, proto);
}

}  // namespace tensorkv
