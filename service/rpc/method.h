// The RPCs that this server implements.

#ifndef TENSORKV_SERVICE_RPC_METHOD_H_
#define TENSORKV_SERVICE_RPC_METHOD_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "absl/strings/string_view.h"

namespace tensorkv {

// The contract's service; reflection, health and metrics use the same name.
inline constexpr absl::string_view kServiceName = "tensorkv.v1.TensorKV";

enum class Method : uint8_t {
  kInit,
  kPush,
  kPull,
  kPushPull,
  kInitStream,
  kPushStream,
  kPullStream,
  kPushPullStream,
  kDelete,
  kList,
  kStat,
  kCreateNamespace,
  kDescribeNamespace,
  kListNamespaces,
  kDeleteNamespace,
  kSetRule,
  kUnsetRule,
  kSetHyperparameters,
  kJoin,
  kKeepAlive,
  kLeave,
  kBarrier,
  kDescribeServer,
};

inline constexpr Method kAllMethods[] = {Method::kInit,
                                         Method::kPush,
                                         Method::kPull,
                                         Method::kPushPull,
                                         Method::kInitStream,
                                         Method::kPushStream,
                                         Method::kPullStream,
                                         Method::kPushPullStream,
                                         Method::kDelete,
                                         Method::kList,
                                         Method::kStat,
                                         Method::kCreateNamespace,
                                         Method::kDescribeNamespace,
                                         Method::kListNamespaces,
                                         Method::kDeleteNamespace,
                                         Method::kSetRule,
                                         Method::kUnsetRule,
                                         Method::kSetHyperparameters,
                                         Method::kJoin,
                                         Method::kKeepAlive,
                                         Method::kLeave,
                                         Method::kBarrier,
                                         Method::kDescribeServer};

// Methods number from 0, so that they index tables of this size.
inline constexpr size_t kNumMethods = std::size(kAllMethods);

// The name in the contract: "Init", "Push", ...
absl::string_view NameOf(Method method);

// As metrics of gRPC servers call it: "unary", "client_stream",
// "server_stream" or "bidi_stream".
absl::string_view TypeOf(Method method);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_RPC_METHOD_H_
