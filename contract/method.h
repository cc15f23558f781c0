// The methods of the contract's services, in one table for both sides.

#ifndef TENSORKV_CONTRACT_METHOD_H_
#define TENSORKV_CONTRACT_METHOD_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "contract/tables.h"

namespace tensorkv {

// The contract's services, as proto/tensorkv/v1/service.proto and peer.proto
// have them.
enum class Service : uint8_t {
  kData,
  kNamespaces,
  kMembership,
  kSnapshots,
  kAdmin,
  kPeer
};

inline constexpr Service kAllServices[] = {
    Service::kData,      Service::kNamespaces, Service::kMembership,
    Service::kSnapshots, Service::kAdmin,      Service::kPeer};

// Returns the name by which gRPC, reflection, health checks and metrics call
// it: "tensorkv.v1.Data", ...
absl::string_view NameOf(Service service);

// Says what happens when a call comes to the server a second time, as
// MethodPolicy in options.proto explains it.
enum class Repeat : uint8_t { kHarmless, kByCallId, kNever };

// The kinds of gRPC methods. NameOf gives the names that metrics of gRPC
// servers use: "unary", "client_stream", "server_stream", "bidi_stream".
enum class MethodKind : uint8_t {
  kUnary,
  kClientStream,
  kServerStream,
  kBidiStream,
};

// What a caller has to be allowed. They are numbered as the roles of
// service/security/policy.proto, which says which right includes which.
enum class Right : uint8_t {
  kRead = 1,
  kPush = 2,
  kAdmin = 3,
  kWatch = 4,
  kLease = 5,
  kPublish = 6
};

// Where a caller has to have the right: in the namespace of the call, in any
// namespace, in all namespaces.
enum class Scope : uint8_t { kNamespace, kSomewhere, kServer };

// contract/tables.h lists the methods as proto/ has them, in the order of their
// services, with what options.proto says of each:
//
//   TENSORKV_UNARY_METHODS(X)   the unary methods that clients call, as X(name,
//                               service, repeat, right, scope). Each has a
//                               NameRequest and a NameReply in
//                               contract/requests.h, and messages NameRequest
//                               and NameResponse in proto/. Whoever does
//                               something for every method does it by this
//                               list.
//   TENSORKV_PLAIN_METHODS(X)   those of them whose messages have no tensors
//   TENSORKV_SILENT_METHODS(X)  those of them whose reply has no fields
//   TENSORKV_STREAM_METHODS(X)  the streams, as X(name, service, repeat, right,
//                               scope, kind)
//   TENSORKV_PEER_METHODS(X)    the unary methods by which servers of a cluster
//                               call each other. Their messages in proto/ are
//                               used as they are.
//
// The lists below say who answers a method, as X(name).

// Methods about the snapshots of a namespace.
#define TENSORKV_SNAPSHOT_METHODS(X) \
  X(CreateSnapshot)                  \
  X(ListSnapshots)                   \
  X(DescribeSnapshot)                \
  X(DeleteSnapshot)                  \
  X(LeaseSnapshot)

// Methods about the options, steps, rules, workers, watches and snapshots of a
// namespace, with a request that has a name_space, and which a Namespace
// answers by a method of that name. Stores, their dispatch, handlers and
// connections treat them all alike, by this list.
#define TENSORKV_NAMESPACE_METHODS(X) \
  X(UpdateNamespace)                  \
  X(DescribeSteps)                    \
  X(SetRule)                          \
  X(UnsetRule)                        \
  X(SetMultipliers)                   \
  X(UnsetMultipliers)                 \
  X(SetHyperparameters)               \
  X(Join)                             \
  X(KeepAlive)                        \
  X(Leave)                            \
  X(Watch)                            \
  TENSORKV_SNAPSHOT_METHODS(X)

// Methods about the checkpoints of a server, which Checkpoints answers by a
// method of that name.
#define TENSORKV_CHECKPOINT_METHODS(X) \
  X(SaveCheckpoint)                    \
  X(RestoreCheckpoint)                 \
  X(ListCheckpoints)                   \
  X(DeleteCheckpoint)                  \
  X(VerifyCheckpoint)

// Methods about a server, which ServerCalls answers by a method of that name.
#define TENSORKV_SERVER_METHODS(X) \
  X(DescribeServer)                \
  X(DescribeCluster)               \
  X(ResizeCluster)

// Methods of peers: those that move partitions, those about shares of
// snapshots, and those that make sums together.
#define TENSORKV_MOVE_METHODS(X) \
  X(BeginMove)                   \
  X(SendMovePart)                \
  X(CommitMove)
#define TENSORKV_SHARE_METHODS(X) \
  X(CheckShares)                  \
  X(FindShares)
#define TENSORKV_MIRROR_METHODS(X) \
  X(AnnounceRounds)                \
  X(BeginSums)                     \
  X(RunSums)                       \
  X(DeliverRanges)                 \
  X(Ping)

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
// Returns "read", "push", ...
const char* NameOf(Right right);
Scope ScopeOf(Method method);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_METHOD_H_
