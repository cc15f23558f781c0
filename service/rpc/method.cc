#include "service/rpc/method.h"

namespace tensorkv {

absl::string_view NameOf(Method method) {
  switch (method) {
    case Method::kInit:
      return "Init";
    case Method::kPush:
      return "Push";
    case Method::kPull:
      return "Pull";
    case Method::kPushPull:
      return "PushPull";
    case Method::kInitStream:
      return "InitStream";
    case Method::kPushStream:
      return "PushStream";
    case Method::kPullStream:
      return "PullStream";
    case Method::kPushPullStream:
      return "PushPullStream";
    case Method::kDelete:
      return "Delete";
    case Method::kList:
      return "List";
    case Method::kStat:
      return "Stat";
    case Method::kCreateNamespace:
      return "CreateNamespace";
    case Method::kDescribeNamespace:
      return "DescribeNamespace";
    case Method::kListNamespaces:
      return "ListNamespaces";
    case Method::kDeleteNamespace:
      return "DeleteNamespace";
    case Method::kSetRule:
      return "SetRule";
    case Method::kUnsetRule:
      return "UnsetRule";
    case Method::kSetHyperparameters:
      return "SetHyperparameters";
    case Method::kJoin:
      return "Join";
    case Method::kKeepAlive:
      return "KeepAlive";
    case Method::kLeave:
      return "Leave";
    case Method::kBarrier:
      return "Barrier";
    case Method::kDescribeServer:
      return "DescribeServer";
  }
  return "";
}

absl::string_view TypeOf(Method method) {
  switch (method) {
    case Method::kInitStream:
    case Method::kPushStream:
      return "client_stream";
    case Method::kPullStream:
      return "server_stream";
    case Method::kPushPullStream:
      return "bidi_stream";
    default:
      return "unary";
  }
}

}  // namespace tensorkv
