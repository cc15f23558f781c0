#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/proto_codec_fields.h"
#include "contract/stripe_range.h"

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

absl::Status MissingRequest() {
  return absl::InvalidArgumentError("request: missing");
}

template <typename Request>
bool IsOfRows(const Request& request) {
  return std::any_of(request.entries.begin(), request.entries.end(),
                     [](const auto& entry) { return bool{entry.rows}; });
}

}  // namespace

absl::StatusOr<InitManifest> FromProto(v1::InitManifest&& proto) {
  if (!proto.has_request()) return MissingRequest();
  InitManifest manifest;
  ASSIGN_OR_RETURN(manifest.stripe, DecodeStripe(proto));
  ASSIGN_OR_RETURN(manifest.request, DecodeInitRequest(*proto.mutable_request(),
                                                       DecodeWithoutData));
  return manifest;
}

void ToProto(const InitManifest& manifest, v1::InitManifest* proto) {
  EncodeInitRequest(manifest.request, EncodeWithoutData,
                    proto->mutable_request());
  EncodeStripe(manifest.stripe, proto);
}

absl::StatusOr<PushManifest> FromProto(v1::PushManifest&& proto) {
  PushManifest manifest;
  ASSIGN_OR_RETURN(manifest.stripe, DecodeStripe(proto));
  if (proto.has_rows_request()) {
    ASSIGN_OR_RETURN(manifest.request,
                     DecodePushRowsRequest(*proto.mutable_rows_request(),
                                           DecodeWithoutData));
  } else if (proto.has_request()) {
    ASSIGN_OR_RETURN(
        manifest.request,
        DecodePushRequest(*proto.mutable_request(), DecodeWithoutData));
  } else {
    return MissingRequest();
  }
  return manifest;
}

void ToProto(const PushManifest& manifest, v1::PushManifest* proto) {
  if (IsOfRows(manifest.request)) {
    EncodePushRowsRequest(manifest.request, EncodeWithoutData,
                          proto->mutable_rows_request());
  } else {
    EncodePushRequest(manifest.request, EncodeWithoutData,
                      proto->mutable_request());
  }
  EncodeStripe(manifest.stripe, proto);
}

absl::StatusOr<PullStreamRequest> FromProto(v1::PullStreamRequest&& proto) {
  PullStreamRequest request;
  if (proto.has_rows_request()) {
    ASSIGN_OR_RETURN(request.request,
                     DecodePullRowsRequest(*proto.mutable_rows_request()));
  } else if (proto.has_request()) {
    ASSIGN_OR_RETURN(request.request, FromProto(proto.request()));
  } else {
    return MissingRequest();
  }
  ASSIGN_OR_RETURN(request.stripe, DecodeStripe(proto));
  request.max_part_bytes = proto.max_part_bytes();
  request.takes_batches = proto.takes_batches();
  return request;
}

void ToProto(const PullStreamRequest& request, v1::PullStreamRequest* proto) {
  if (IsOfRows(request.request)) {
    EncodePullRowsRequest(request.request, proto->mutable_rows_request());
  } else {
    ToProto(request.request, proto->mutable_request());
  }
  EncodeStripe(request.stripe, proto);
  proto->set_max_part_bytes(request.max_part_bytes);
  proto->set_takes_batches(request.takes_batches);
}

absl::StatusOr<PullReply> FromProto(v1::PullManifest&& proto) {
  return DecodeValues(*proto.mutable_values(), DecodeWithoutData);
}

void ToProto(const PullReply& reply, v1::PullManifest* proto) {
  EncodeValues(reply, EncodeWithoutData, proto->mutable_values());
}

}  // namespace tensorkv
