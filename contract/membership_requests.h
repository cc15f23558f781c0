// The calls of membership.proto, which explains their fields.

#ifndef TENSORKV_CONTRACT_MEMBERSHIP_REQUESTS_H_
#define TENSORKV_CONTRACT_MEMBERSHIP_REQUESTS_H_

#include <string>

#include "absl/time/time.h"
#include "contract/call_fields.h"
#include "tensorkv/v1/membership.pb.h"

namespace tensorkv {

using JoinRequest = v1::JoinRequest;
using JoinReply = v1::JoinResponse;
using KeepAliveRequest = v1::KeepAliveRequest;
using KeepAliveReply = v1::KeepAliveResponse;
using LeaveRequest = v1::LeaveRequest;
using LeaveReply = v1::LeaveResponse;
using BarrierRequest = v1::BarrierRequest;
using BarrierReply = v1::BarrierResponse;

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_MEMBERSHIP_REQUESTS_H_
