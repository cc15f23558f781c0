// The methods of the contract's service, in one table for both sides.

#ifndef TENSORKV_CONTRACT_METHOD_H_
#define TENSORKV_CONTRACT_METHOD_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorkv {

// The contract's service; reflection, health and metrics use the same name.
inline constexpr absl::string_view kServiceName = "tensorkv.v1.TensorKV";

// Says what happens when a call comes to the server a second time.
enum class Repeat : uint8_t {
  // The outcome is the same.
  kHarmless,
  // The call is applied again, unless its call_id says that it is the same one.
  kByCallId,
  // The call is applied again, and its request has no call_id to tell: it may
  // not be repeated.
  kNever,
};

// The kinds of gRPC methods. NameOf gives the names that metrics of gRPC
// servers use: "unary", "client_stream", "server_stream", "bidi_stream".
enum class MethodKind : uint8_t {
  kUnary,
  kClientStream,
  kServerStream,
  kBidiStream,
};

// What a caller has to be allowed. Each right includes those before it.
// Numbered as roles in service/security/policy.proto.
enum class Right : uint8_t { kRead = 1, kPush = 2, kAdmin = 3 };

// Where a caller has to have the right.
enum class Scope : uint8_t {
  kNamespace,  // in the namespace of the call
  kSomewhere,  // in any namespace; of several, the reply shows these
  kServer,     // in all namespaces: in those that are named "*"
};

// Methods whose requests or replies have tensors. Workers bring the values and
// states that they begin with, so Init and SetState take no more than a Push.
#define TENSORKV_TENSOR_METHODS(X)          \
  X(Init, kByCallId, kPush, kNamespace)     \
  X(Push, kByCallId, kPush, kNamespace)     \
  X(Pull, kHarmless, kRead, kNamespace)     \
  X(PushPull, kByCallId, kPush, kNamespace) \
  X(PushRows, kByCallId, kPush, kNamespace) \
  X(PullRows, kHarmless, kRead, kNamespace) \
  X(SetState, kByCallId, kPush, kNamespace) \
  X(GetState, kHarmless, kRead, kNamespace)

// Methods about the keys, rules and workers of one namespace, with a request
// that has a name_space, and which a Namespace answers by a method of that
// name. Stores, their decorators, handlers and connections treat them all
// alike, by this list. What changes the namespace for all who use it takes an
// admin.
#define TENSORKV_NAMESPACE_METHODS(X)                  \
  X(SetRule, kHarmless, kAdmin, kNamespace)            \
  X(UnsetRule, kByCallId, kAdmin, kNamespace)          \
  X(SetHyperparameters, kHarmless, kAdmin, kNamespace) \
  X(Join, kByCallId, kPush, kNamespace)                \
  X(KeepAlive, kHarmless, kPush, kNamespace)           \
  X(Leave, kByCallId, kPush, kNamespace)

// Methods about the checkpoints of a server, which Checkpoints answers by a
// method of that name.
#define TENSORKV_CHECKPOINT_METHODS(X)           \
  X(SaveCheckpoint, kNever, kAdmin, kServer)     \
  X(RestoreCheckpoint, kNever, kAdmin, kServer)  \
  X(ListCheckpoints, kHarmless, kAdmin, kServer) \
  X(DeleteCheckpoint, kNever, kAdmin, kServer)   \
  X(VerifyCheckpoint, kHarmless, kAdmin, kServer)

// Methods about a server, which ServerCalls answers by a method of that name.
// Whoever makes MovePartitions writes to every namespace.
#define TENSORKV_SERVER_METHODS(X)                 \
  X(DescribeServer, kHarmless, kRead, kSomewhere)  \
  X(DescribeCluster, kHarmless, kRead, kSomewhere) \
  X(ResizeCluster, kHarmless, kAdmin, kServer)     \
  X(MovePartitions, kHarmless, kAdmin, kServer)

// All methods whose messages have no tensors. A Delete takes an admin, as what
// was trained is gone after it.
#define TENSORKV_PLAIN_METHODS(X)                    \
  X(Delete, kByCallId, kAdmin, kNamespace)           \
  X(List, kHarmless, kRead, kNamespace)              \
  X(Stat, kHarmless, kRead, kNamespace)              \
  X(CreateNamespace, kByCallId, kAdmin, kNamespace)  \
  X(DescribeNamespace, kHarmless, kRead, kNamespace) \
  X(ListNamespaces, kHarmless, kRead, kSomewhere)    \
  X(DeleteNamespace, kNever, kAdmin, kNamespace)     \
  TENSORKV_NAMESPACE_METHODS(X)                      \
  X(Barrier, kByCallId, kPush, kNamespace)           \
  TENSORKV_CHECKPOINT_METHODS(X)                     \
  TENSORKV_SERVER_METHODS(X)

// The unary methods, as X(name, repeat, right, scope). Each has a NameRequest
// and a NameReply in contract/requests.h, and messages NameRequest and
// NameResponse in proto/. Whoever does something for every method does it by
// this list, and by those of which it is made.
#define TENSORKV_UNARY_METHODS(X) \
  TENSORKV_TENSOR_METHODS(X)      \
  TENSORKV_PLAIN_METHODS(X)

// The streams, as X(name, repeat, right, scope, kind).
#define TENSORKV_STREAM_METHODS(X)                           \
  X(InitStream, kByCallId, kPush, kNamespace, kClientStream) \
  X(PushStream, kByCallId, kPush, kNamespace, kClientStream) \
  X(PullStream, kHarmless, kRead, kNamespace, kServerStream) \
  X(PushPullStream, kByCallId, kPush, kNamespace, kBidiStream)

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

// Returns the name in the contract: "Init", "Push", ...
absl::string_view NameOf(Method method);

// Returns the path by which gRPC names it: "/tensorkv.v1.TensorKV/Init". The
// string lives for ever.
const char* PathOf(Method method);

MethodKind KindOf(Method method);
absl::string_view NameOf(MethodKind kind);

Repeat RepeatOf(Method method);

Right RightOf(Method method);
// "read", "push" or "admin".
const char* NameOf(Right right);
Scope ScopeOf(Method method);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_METHOD_H_
