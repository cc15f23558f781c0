#include <algorithm>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "contract/stripe_range.h"
#include "tests/contract/generated/fields.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv {
namespace {

// Decodes the stripe of a message whose other fields are there.
template <typename Proto>
absl::StatusOr<Stripe> DecodeStripe(const Proto& proto) {
  Stripe stripe;
  stripe.index = proto.stripe().index();
  if (proto.stripe().count() > 0) stripe.count = proto.stripe().count();
  stripe.group = proto.stripe().group();
  RETURN_IF_ERROR(CheckStripe(stripe));
  if (stripe.count > 1 && stripe.group == 0) {
    return absl::InvalidArgumentError(
        "stripe: expected a group that the call's stripes share, got none");
  }
  return stripe;
}

// The only stripe of a call is left out.
template <typename Proto>
void EncodeStripe(const Stripe& stripe, Proto* proto) {
  if (stripe == Stripe()) return;
  proto->mutable_stripe()->set_index(stripe.index);
  proto->mutable_stripe()->set_count(stripe.count);
  proto->mutable_stripe()->set_group(stripe.group);
}

// Returns the error of a manifest, or the request of a pull, that has no call.
absl::Status MissingCall() {
  return absl::InvalidArgumentError("call: missing");
}

template <typename Request>
bool IsOfRows(const Request& request) {
  return std::any_of(request.entries.begin(), request.entries.end(),
                     [](const auto& entry) { return bool{entry.rows}; });
}

void EncodeCall(const InitRequest& init, v1::InitManifest* proto) {
  EncodeInitRequest(init, EncodeWithoutData, proto->mutable_init());
}
void EncodeCall(const SetStateRequest& set_state, v1::InitManifest* proto) {
  EncodeSetStateRequest(set_state, EncodeWithoutData,
                        proto->mutable_set_state());
}

void EncodeCall(const PushRequest& push, v1::PushManifest* proto) {
  if (IsOfRows(push)) {
    return EncodePushRowsRequest(push, EncodeWithoutData,
                                 proto->mutable_push_rows());
  }
  EncodePushRequest(push, EncodeWithoutData, proto->mutable_push());
}
void EncodeCall(const PushPullRequest& push_pull, v1::PushManifest* proto) {
  EncodePushPullRequest(push_pull, EncodeWithoutData,
                        proto->mutable_push_pull());
}

// Encodes whichever call the variant has.
template <typename Call, typename Proto>
void EncodeAnyCall(const Call& call, Proto* proto) {
  std::visit([proto](const auto& each) { EncodeCall(each, proto); }, call);
}

}  // namespace

absl::StatusOr<InitManifest> FromProto(v1::InitManifest&& proto) {
  InitManifest manifest;
  ASSIGN_OR_RETURN(manifest.stripe, DecodeStripe(proto));
  switch (proto.call_case()) {
    case v1::InitManifest::kInit: {
      ASSIGN_OR_RETURN(
          manifest.request,
          DecodeInitRequest(*proto.mutable_init(), DecodeWithoutData));
      return manifest;
    }
    case v1::InitManifest::kSetState: {
      ASSIGN_OR_RETURN(
          manifest.request,
          DecodeSetStateRequest(*proto.mutable_set_state(), DecodeWithoutData));
      return manifest;
    }
    case v1::InitManifest::CALL_NOT_SET:
      break;
  }
  return MissingCall();
}

void ToProto(const InitManifest& manifest, v1::InitManifest* proto) {
  EncodeAnyCall(manifest.request, proto);
  EncodeStripe(manifest.stripe, proto);
}

absl::StatusOr<PushManifest> FromProto(v1::PushManifest&& proto) {
  PushManifest manifest;
  ASSIGN_OR_RETURN(manifest.stripe, DecodeStripe(proto));
  switch (proto.call_case()) {
    case v1::PushManifest::kPush: {
      ASSIGN_OR_RETURN(
          manifest.request,
          DecodePushRequest(*proto.mutable_push(), DecodeWithoutData));
      return manifest;
    }
    case v1::PushManifest::kPushRows: {
      ASSIGN_OR_RETURN(
          manifest.request,
          DecodePushRowsRequest(*proto.mutable_push_rows(), DecodeWithoutData));
      return manifest;
    }
    case v1::PushManifest::kPushPull: {
      ASSIGN_OR_RETURN(
          manifest.request,
          DecodePushPullRequest(*proto.mutable_push_pull(), DecodeWithoutData));
      return manifest;
    }
    case v1::PushManifest::CALL_NOT_SET:
      break;
  }
  return MissingCall();
}

void ToProto(const PushManifest& manifest, v1::PushManifest* proto) {
  EncodeAnyCall(manifest.request, proto);
  EncodeStripe(manifest.stripe, proto);
}

absl::StatusOr<PullReply> FromProto(v1::PullManifest&& proto) {
  return DecodeValues(*proto.mutable_values(), DecodeWithoutData);
}

void ToProto(const PullReply& reply, v1::PullManifest* proto) {
  EncodeValues(reply, EncodeWithoutData, proto->mutable_values());
}

}  // namespace tensorkv
