// The methods of the contract's services, in one table for both sides.

#ifndef TENSORKV_CONTRACT_METHOD_H_
#define TENSORKV_CONTRACT_METHOD_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace tensorkv {

// The contract's services, as proto/tensorkv/v1/service.proto and peer.proto
// have them.
enum class Service : uint8_t { kData, kNamespaces, kMembership, kAdmin, kPeer };

inline constexpr Service kAllServices[] = {Service::kData, Service::kNamespaces,
                                           Service::kMembership,
                                           Service::kAdmin, Service::kPeer};

// Returns the name by which gRPC, reflection, health checks and metrics call
// it: "tensorkv.v1.Data", ...
absl::string_view NameOf(Service service);

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
#define TENSORKV_TENSOR_METHODS(X)                \
  X(Init, Data, kByCallId, kPush, kNamespace)     \
  X(Push, Data, kByCallId, kPush, kNamespace)     \
  X(Pull, Data, kHarmless, kRead, kNamespace)     \
  X(PushPull, Data, kByCallId, kPush, kNamespace) \
  X(PushRows, Data, kByCallId, kPush, kNamespace) \
  X(PullRows, Data, kHarmless, kRead, kNamespace) \
  X(SetState, Data, kByCallId, kPush, kNamespace) \
  X(GetState, Data, kHarmless, kRead, kNamespace)

// Methods about the options, rules and workers of one namespace, with a request
// that has a name_space, and which a Namespace answers by a method of that
// name. Stores, their decorators, handlers and connections treat them all
// alike, by this list. What changes the namespace for all who use it takes an
// admin.
#define TENSORKV_NAMESPACE_METHODS(X)                              \
  X(UpdateNamespace, Namespaces, kHarmless, kAdmin, kNamespace)    \
  X(SetRule, Namespaces, kHarmless, kAdmin, kNamespace)            \
  X(UnsetRule, Namespaces, kByCallId, kAdmin, kNamespace)          \
  X(SetMultipliers, Namespaces, kHarmless, kAdmin, kNamespace)     \
  X(UnsetMultipliers, Namespaces, kByCallId, kAdmin, kNamespace)   \
  X(SetHyperparameters, Namespaces, kHarmless, kAdmin, kNamespace) \
  X(Join, Membership, kByCallId, kPush, kNamespace)                \
  X(KeepAlive, Membership, kHarmless, kPush, kNamespace)           \
  X(Leave, Membership, kByCallId, kPush, kNamespace)

// Methods about the checkpoints of a server, which Checkpoints answers by a
// method of that name.
#define TENSORKV_CHECKPOINT_METHODS(X)                  \
  X(SaveCheckpoint, Admin, kNever, kAdmin, kServer)     \
  X(RestoreCheckpoint, Admin, kNever, kAdmin, kServer)  \
  X(ListCheckpoints, Admin, kHarmless, kAdmin, kServer) \
  X(DeleteCheckpoint, Admin, kNever, kAdmin, kServer)   \
  X(VerifyCheckpoint, Admin, kHarmless, kAdmin, kServer)

// Methods about a server, which ServerCalls answers by a method of that name.
#define TENSORKV_SERVER_METHODS(X)                        \
  X(DescribeServer, Admin, kHarmless, kRead, kSomewhere)  \
  X(DescribeCluster, Admin, kHarmless, kRead, kSomewhere) \
  X(ResizeCluster, Admin, kHarmless, kAdmin, kServer)

// All methods whose messages have no tensors. A Delete takes an admin, as what
// was trained is gone after it.
#define TENSORKV_PLAIN_METHODS(X)                                \
  X(Delete, Data, kByCallId, kAdmin, kNamespace)                 \
  X(List, Data, kHarmless, kRead, kNamespace)                    \
  X(Stat, Data, kHarmless, kRead, kNamespace)                    \
  X(CreateNamespace, Namespaces, kByCallId, kAdmin, kNamespace)  \
  X(DescribeNamespace, Namespaces, kHarmless, kRead, kNamespace) \
  X(ListNamespaces, Namespaces, kHarmless, kRead, kSomewhere)    \
  X(DeleteNamespace, Namespaces, kByCallId, kAdmin, kNamespace)  \
  TENSORKV_NAMESPACE_METHODS(X)                                  \
  X(Barrier, Membership, kByCallId, kPush, kNamespace)           \
  TENSORKV_CHECKPOINT_METHODS(X)                                 \
  TENSORKV_SERVER_METHODS(X)

// The unary methods that clients call, as X(name, service, repeat, right,
// scope). Each has a NameRequest and a NameReply in contract/requests.h, and
// messages NameRequest and NameResponse in proto/. Whoever does something for
// every method does it by this list, and by those of which it is made.
#define TENSORKV_UNARY_METHODS(X) \
  TENSORKV_TENSOR_METHODS(X)      \
  TENSORKV_PLAIN_METHODS(X)

// The streams, as X(name, service, repeat, right, scope, kind).
#define TENSORKV_STREAM_METHODS(X)                                 \
  X(InitStream, Data, kByCallId, kPush, kNamespace, kClientStream) \
  X(PushStream, Data, kByCallId, kPush, kNamespace, kClientStream) \
  X(PullStream, Data, kHarmless, kRead, kNamespace, kServerStream) \
  X(PushPullStream, Data, kByCallId, kPush, kNamespace, kBidiStream)

// The methods by which servers of a cluster move partitions, and make sums
// together, as in TENSORKV_UNARY_METHODS. Their messages in proto/ are used as
// they are. Whoever calls them writes to every namespace.
#define TENSORKV_MOVE_METHODS(X)                    \
  X(BeginMove, Peer, kHarmless, kAdmin, kServer)    \
  X(SendMovePart, Peer, kHarmless, kAdmin, kServer) \
  X(CommitMove, Peer, kHarmless, kAdmin, kServer)
#define TENSORKV_MIRROR_METHODS(X)                    \
  X(AnnounceRounds, Peer, kHarmless, kAdmin, kServer) \
  X(BeginSums, Peer, kNever, kAdmin, kServer)         \
  X(RunSums, Peer, kNever, kAdmin, kServer)           \
  X(DeliverRanges, Peer, kNever, kAdmin, kServer)     \
  X(Ping, Peer, kHarmless, kAdmin, kServer)
#define TENSORKV_PEER_METHODS(X) \
  TENSORKV_MOVE_METHODS(X)       \
  TENSORKV_MIRROR_METHODS(X)

enum class Method : uint8_t {
#define TENSORKV_ENUMERATOR(name, ...) k##name,
  TENSORKV_UNARY_METHODS(TENSORKV_ENUMERATOR)
      TENSORKV_STREAM_METHODS(TENSORKV_ENUMERATOR)
          TENSORKV_PEER_METHODS(TENSORKV_ENUMERATOR)
#undef TENSORKV_ENUMERATOR
};

#define TENSORKV_VALUE(name, ...) Method::k##name,
// These are the methods of TENSORKV_UNARY_METHODS.
inline constexpr Method kUnaryMethods[] = {
    TENSORKV_UNARY_METHODS(TENSORKV_VALUE)};

inline constexpr Method kAllMethods[] = {
    TENSORKV_UNARY_METHODS(TENSORKV_VALUE)
        TENSORKV_STREAM_METHODS(TENSORKV_VALUE)
            TENSORKV_PEER_METHODS(TENSORKV_VALUE)};
#undef TENSORKV_VALUE

// Methods number from 0, so that they index tables of this size; those of
// kUnaryMethods come first.
inline constexpr size_t kNumMethods = sizeof(kAllMethods) / sizeof(Method);

// Returns the name in the contract: "Init", "Push", ...
absl::string_view NameOf(Method method);

// Returns the path by which gRPC names it: "/tensorkv.v1.Data/Init". The string
// lives for ever.
const char* PathOf(Method method);

Service ServiceOf(Method method);

MethodKind KindOf(Method method);
absl::string_view NameOf(MethodKind kind);

Repeat RepeatOf(Method method);

Right RightOf(Method method);
// Returns "read", "push" or "admin".
const char* NameOf(Right right);
Scope ScopeOf(Method method);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_METHOD_H_
