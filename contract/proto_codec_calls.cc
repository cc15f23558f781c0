#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/error_from.h"
#include "contract/proto_codec.h"

namespace tensorkv {

absl::StatusOr<OnExisting> DecodeOnExisting(v1::OnExisting proto) {
  switch (proto) {
    case v1::ON_EXISTING_UNSPECIFIED:
    case v1::ON_EXISTING_FAIL:
      return OnExisting::kFail;
    case v1::ON_EXISTING_KEEP:
      return OnExisting::kKeep;
    case v1::ON_EXISTING_REPLACE:
      return OnExisting::kReplace;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "on_existing: unknown number ", static_cast<int>(proto)));
  }
}

v1::OnExisting EncodeOnExisting(OnExisting on_existing) {
  switch (on_existing) {
    case OnExisting::kFail:
      break;
    case OnExisting::kKeep:
      return v1::ON_EXISTING_KEEP;
    case OnExisting::kReplace:
      return v1::ON_EXISTING_REPLACE;
  }
  return v1::ON_EXISTING_FAIL;
}

std::string EntryName(int index, absl::string_view key) {
  // Statuses travel in HTTP/2 headers, which are small.
  constexpr size_t kMostShown = 128;
  return absl::StrCat("entry ", index, " (\"",
                      absl::CHexEscape(key.substr(0, kMostShown)),
                      key.size() > kMostShown ? "...\")" : "\")");
}

InitReply FromProto(const v1::InitResponse& proto) {
  return {.versions = {proto.versions().begin(), proto.versions().end()}};
}
void ToProto(const InitReply& reply, v1::InitResponse* proto) {
  proto->mutable_versions()->Add(reply.versions.begin(), reply.versions.end());
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
        {result.version(), result.step(), result.repeated()});
  }
  return reply;
}
void ToProto(const PushReply& reply, v1::PushResponse* proto) {
  for (const PushResult& result : reply.results) {
    v1::PushResult& out = *proto->add_results();
    out.set_version(result.version);
    out.set_step(result.step);
    out.set_repeated(result.repeated);
  }
}

absl::Status CheckShapes(
    const google::protobuf::RepeatedPtrField<v1::KeyStatus>& keys) {
  for (int i = 0; i < keys.size(); ++i) {
    if (const auto shape = ShapeOf(keys[i]); !shape.ok()) {
      return ErrorFrom(EntryName(i, keys[i].key()), shape.status());
    }
  }
  return absl::OkStatus();
}

}  // namespace tensorkv
