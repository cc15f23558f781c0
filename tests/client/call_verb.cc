#include "tests/client/call_verb.h"

#include <utility>

namespace tensorkv::testing {
namespace {

using Caller = absl::Status (*)(Connection&, const CallOptions&,
                                const VerbOptions&);

const std::pair<const char*, Caller> kCallers[] = {
    {"Init",
     [](Connection& connection, const CallOptions& call,
        const VerbOptions& options) {
       InitRequest request;
       request.on_existing = options.on_existing;
       return connection.Init(request, call).status();
     }},
    {"Push",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.Push({}, call).status();
     }},
    {"Pull",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.Pull({}, call).status();
     }},
    {"PushPull",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.PushPull({}, call).status();
     }},
    {"Delete",
     [](Connection& connection, const CallOptions& call,
        const VerbOptions& options) {
       DeleteRequest request;
       request.allow_missing = options.allow_missing;
       return connection.Delete(request, call).status();
     }},
    {"List",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.List({}, call).status();
     }},
    {"Stat",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.Stat({}, call).status();
     }},
    {"CreateNamespace",
     [](Connection& connection, const CallOptions& call,
        const VerbOptions& options) {
       CreateNamespaceRequest request;
       request.on_existing = options.on_existing;
       return connection.CreateNamespace(request, call).status();
     }},
    {"DescribeNamespace",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.DescribeNamespace("", call).status();
     }},
    {"ListNamespaces",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.ListNamespaces(call).status();
     }},
    {"DeleteNamespace",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.DeleteNamespace("", call);
     }},
    {"SetRule",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.SetRule({}, call);
     }},
    {"UnsetRule",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.UnsetRule({}, call);
     }},
    {"SetHyperparameters",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.SetHyperparameters({}, call).status();
     }},
    {"Join",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.Join({}, call).status();
     }},
    {"KeepAlive",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.KeepAlive({}, call).status();
     }},
    {"Leave", [](Connection& connection, const CallOptions& call,
                 const VerbOptions&) { return connection.Leave({}, call); }},
    {"Barrier",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.Barrier({}, call);
     }},
    {"DescribeServer",
     [](Connection& connection, const CallOptions& call, const VerbOptions&) {
       return connection.DescribeServer(call).status();
     }},
};

}  // namespace

std::vector<std::string> AllVerbs() {
  std::vector<std::string> verbs;
  for (const auto& [verb, caller] : kCallers) verbs.push_back(verb);
  return verbs;
}

absl::Status CallVerb(const std::string& verb, Connection& connection,
                      const CallOptions& call, const VerbOptions& options) {
  for (const auto& [name, caller] : kCallers) {
    if (name == verb) return caller(connection, call, options);
  }
  return absl::InternalError("no such verb: " + verb);
}

}  // namespace tensorkv::testing
