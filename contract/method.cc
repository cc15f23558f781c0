#include "contract/method.h"

namespace tensorkv {
namespace {

struct Row {
  absl::string_view name;
  const char* path;
  Service service;
  MethodKind kind;
  Repeat repeat;
  Right right;
  Scope scope;
};

constexpr Row kRows[] = {
#define TENSORKV_STREAM_ROW(name, service, repeat, right, scope, kind) \
  {#name,                                                              \
   "/tensorkv.v1." #service "/" #name,                                 \
   Service::k##service,                                                \
   MethodKind::kind,                                                   \
   Repeat::repeat,                                                     \
   Right::right,                                                       \
   Scope::scope},
#define TENSORKV_UNARY_ROW(name, service, repeat, right, scope) \
  TENSORKV_STREAM_ROW(name, service, repeat, right, scope, kUnary)
    TENSORKV_UNARY_METHODS(TENSORKV_UNARY_ROW)
        TENSORKV_STREAM_METHODS(TENSORKV_STREAM_ROW)
            TENSORKV_PEER_METHODS(TENSORKV_UNARY_ROW)
#undef TENSORKV_UNARY_ROW
#undef TENSORKV_STREAM_ROW
};

const Row& RowOf(Method method) { return kRows[static_cast<size_t>(method)]; }

}  // namespace

absl::string_view NameOf(Service service) {
  constexpr absl::string_view kNames[] = {
      "tensorkv.v1.Data",       "tensorkv.v1.Namespaces",
      "tensorkv.v1.Membership", "tensorkv.v1.Snapshots",
      "tensorkv.v1.Admin",      "tensorkv.v1.Peer"};
  return kNames[static_cast<size_t>(service)];
}

absl::string_view NameOf(Method method) { return RowOf(method).name; }

const char* PathOf(Method method) { return RowOf(method).path; }

Service ServiceOf(Method method) { return RowOf(method).service; }

MethodKind KindOf(Method method) { return RowOf(method).kind; }

Repeat RepeatOf(Method method) { return RowOf(method).repeat; }

Right RightOf(Method method) { return RowOf(method).right; }

Scope ScopeOf(Method method) { return RowOf(method).scope; }

const char* NameOf(Right right) {
  constexpr const char* kNames[] = {"read",  "push",  "admin",
                                    "watch", "lease", "publish"};
  return kNames[static_cast<size_t>(right) - 1];
}

absl::string_view NameOf(MethodKind kind) {
  constexpr absl::string_view kNames[] = {"unary", "client_stream",
                                          "server_stream", "bidi_stream"};
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace tensorkv
