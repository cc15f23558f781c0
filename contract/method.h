// The methods of the contract's service, in one table for both sides.

#ifndef TENSORKV_CONTRACT_METHOD_H_
#define TENSORKV_CONTRACT_METHOD_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorkv {

// The contract's service; reflection, health and metrics use the same name.
inline constexpr absl::string_view kServiceName = "tensorkv.v1.TensorKV";

// What happens when a call comes to the server a second time.
enum class Repeat : uint8_t {
  // The outcome is the same.
  kHarmless,
  // The call is applied again, unless its call_id says that it is the same one;
  // a request without such a field may not be repeated at all.
  kByCallId,
};

// As metrics of gRPC servers call them: "unary", "client_stream",
// "server_stream", "bidi_stream".
enum class MethodKind : uint8_t {
  kUnary,
  kClientStream,
  kServerStream,
  kBidiStream,
};

// Methods about the keys and rules of one namespace: unary, with a request that
// has a name_space, and which a namespace answers by a method of that name.
// Stores, their decorators, handlers and connections treat them all alike, by
// this list.
#define TENSORKV_NAMESPACE_METHODS(X) \
  X(RebalanceNamespace, kHarmless)    \
  X(SetRule, kHarmless)               \
  X(UnsetRule, kByCallId)             \
  X(SetHyperparameters, kHarmless)

// The unary methods, as X(name, repeat). Each has a NameRequest and a NameReply
// in contract/requests.h, and messages NameRequest and NameResponse in proto/.
// Whoever does something for every method does it by this list.
#define TENSORKV_UNARY_METHODS(X) \
  X(Init, kByCallId)              \
  X(Push, kByCallId)              \
  X(Pull, kHarmless)              \
  X(PushPull, kByCallId)          \
  X(PushRows, kByCallId)          \
  X(PullRows, kHarmless)          \
  X(Delete, kByCallId)            \
  X(List, kHarmless)              \
  X(Stat, kHarmless)              \
  X(CreateNamespace, kByCallId)   \
  X(DescribeNamespace, kHarmless) \
  X(ListNamespaces, kHarmless)    \
  X(DeleteNamespace, kByCallId)   \
  TENSORKV_NAMESPACE_METHODS(X)   \
  X(Join, kByCallId)              \
  X(KeepAlive, kHarmless)         \
  X(Leave, kByCallId)             \
  X(Barrier, kByCallId)           \
  X(SaveCheckpoint, kByCallId)    \
  X(RestoreCheckpoint, kByCallId) \
  X(ListCheckpoints, kHarmless)   \
  X(DeleteCheckpoint, kByCallId)  \
  X(VerifyCheckpoint, kHarmless)  \
  X(DescribeServer, kHarmless)    \
  X(DescribeCluster, kHarmless)   \
  X(ResizeCluster, kHarmless)     \
  X(MovePartitions, kHarmless)

// The streams, as X(name, repeat, kind).
#define TENSORKV_STREAM_METHODS(X)        \
  X(InitStream, kByCallId, kClientStream) \
  X(PushStream, kByCallId, kClientStream) \
  X(PullStream, kHarmless, kServerStream) \
  X(PushPullStream, kByCallId, kBidiStream)

enum class Method : uint8_t {
#define TENSORKV_ENUMERATOR(name, ...) k##name,
  TENSORKV_UNARY_METHODS(TENSORKV_ENUMERATOR)
      TENSORKV_STREAM_METHODS(TENSORKV_ENUMERATOR)
#undef TENSORKV_ENUMERATOR
};

inline constexpr Method kAllMethods[] = {
#define TENSORKV_VALUE(name, ...) Method::k##name,
    TENSORKV_UNARY_METHODS(TENSORKV_VALUE)
        TENSORKV_STREAM_METHODS(TENSORKV_VALUE)
#undef TENSORKV_VALUE
};

// Methods number from 0, so that they index tables of this size.
inline constexpr size_t kNumMethods = sizeof(kAllMethods) / sizeof(Method);

// The name in the contract: "Init", "Push", ...
absl::string_view NameOf(Method method);

// As gRPC names it: "/tensorkv.v1.TensorKV/Init". Lives for ever.
const char* PathOf(Method method);

MethodKind KindOf(Method method);
absl::string_view NameOf(MethodKind kind);

Repeat RepeatOf(Method method);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_METHOD_H_
