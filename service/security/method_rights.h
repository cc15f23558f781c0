// Which right each method takes: the one table of it.

#ifndef TENSORKV_SERVICE_SECURITY_METHOD_RIGHTS_H_
#define TENSORKV_SERVICE_SECURITY_METHOD_RIGHTS_H_

#include <cstddef>
#include <cstdint>
#include <iterator>

#include "contract/method.h"

namespace tensorkv {

// Each has those before it. Numbered as roles in policy.proto.
enum class Right : uint8_t { kRead = 1, kPush = 2, kAdmin = 3 };

// Where a caller has to have the right.
enum class Scope : uint8_t {
  kNamespace,  // in the namespace of the call
  kSomewhere,  // in any namespace; of several, the reply shows these
  kServer,     // in all namespaces: in those that are named "*"
};

struct Requirement {
  Method method;
  Right right;
  Scope scope = Scope::kNamespace;
};

// In the order of the methods. A method without a row does not compile.
inline constexpr Requirement kRequirements[] = {
    // Workers bring the values that they begin with.
    {Method::kInit, Right::kPush},
    {Method::kPush, Right::kPush},
    {Method::kPull, Right::kRead},
    {Method::kPushPull, Right::kPush},
    {Method::kPushRows, Right::kPush},
    {Method::kPullRows, Right::kRead},
    // What was trained is gone after that.
    {Method::kDelete, Right::kAdmin},
    {Method::kList, Right::kRead},
    {Method::kStat, Right::kRead},
    {Method::kCreateNamespace, Right::kAdmin},
    {Method::kDescribeNamespace, Right::kRead},
    {Method::kListNamespaces, Right::kRead, Scope::kSomewhere},
    {Method::kDeleteNamespace, Right::kAdmin},
// clang-format off
#define TENSORKV_ROW(name, ...) {Method::k##name, Right::kAdmin},
    // These change the namespace for all who use it.
    TENSORKV_NAMESPACE_METHODS(TENSORKV_ROW)
#undef TENSORKV_ROW
    // clang-format on
    {Method::kJoin, Right::kPush},
    {Method::kKeepAlive, Right::kPush},
    {Method::kLeave, Right::kPush},
    {Method::kBarrier, Right::kPush},
    {Method::kSaveCheckpoint, Right::kAdmin, Scope::kServer},
    {Method::kRestoreCheckpoint, Right::kAdmin, Scope::kServer},
    {Method::kListCheckpoints, Right::kAdmin, Scope::kServer},
    {Method::kDeleteCheckpoint, Right::kAdmin, Scope::kServer},
    {Method::kVerifyCheckpoint, Right::kAdmin, Scope::kServer},
    {Method::kDescribeServer, Right::kRead, Scope::kSomewhere},
    {Method::kDescribeCluster, Right::kRead, Scope::kSomewhere},
    {Method::kResizeCluster, Right::kAdmin, Scope::kServer},
    // Whoever makes it writes to every namespace.
    {Method::kMovePartitions, Right::kAdmin, Scope::kServer},
    {Method::kInitStream, Right::kPush},
    {Method::kPushStream, Right::kPush},
    {Method::kPullStream, Right::kRead},
    {Method::kPushPullStream, Right::kPush},
};

constexpr const Requirement& RequirementOf(Method method) {
  return kRequirements[static_cast<size_t>(method)];
}

constexpr bool HasRowOfEachMethod() {
  if (std::size(kRequirements) != kNumMethods) return false;
  for (const Method method : kAllMethods) {
    if (RequirementOf(method).method != method) return false;
  }
  return true;
}
static_assert(HasRowOfEachMethod(), "kRequirements: a row for each method");

// "read", "push" or "admin".
constexpr const char* NameOf(Right right) {
  constexpr const char* kNames[] = {"read", "push", "admin"};
  return kNames[static_cast<size_t>(right) - 1];
}

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SECURITY_METHOD_RIGHTS_H_
