// What Python sees of a Store.

#include <pybind11/stl.h>

#include "contract/proto_codec.h"
#include "python/core/arguments.h"
#include "python/core/describe.h"
#include "python/core/store.h"

namespace tensorkv::python {
namespace {

namespace py = pybind11;

using Texts = std::vector<std::string>;

}  // namespace

void Store::Register(py::module_& module) {
  py::class_<SharedChangeReader, std::shared_ptr<SharedChangeReader>>(
      module, "ChangeReader")
      .def(py::init<>())
      .def("clear", &SharedChangeReader::Clear, py::call_guard<GilRelease>())
      .def_property_readonly("bytes", [](const SharedChangeReader& reader) {
        const GilRelease release;
        return reader.bytes();
      });
  py::class_<SharedChangeWriter, std::shared_ptr<SharedChangeWriter>>(
      module, "ChangeWriter")
      .def(py::init<>())
      .def("clear", &SharedChangeWriter::Clear)
      .def_property_readonly("bytes", &SharedChangeWriter::bytes);
  py::class_<Store> store(module, "Store");
  RegisterOpening(store);
  RegisterValues(store);
  RegisterKeys(store);
  RegisterSnapshots(store);
  RegisterWatches(store);
  RegisterNamespaces(store);
  RegisterServer(store);
  RegisterState(store);
}

void Store::RegisterOpening(py::class_<Store>& store) {
  store
      .def_static(
          "connect",
          [](const std::string& target, const std::string& name_space,
             double timeout, const std::string& tls_ca,
             const std::string& tls_cert, const std::string& tls_key,
             const std::string& tls_server_name,
             const std::string& token_file) {
            return Connect({.target = target,
                            .credentials = {.tls_ca = tls_ca,
                                            .tls_cert = tls_cert,
                                            .tls_key = tls_key,
                                            .tls_server_name = tls_server_name,
                                            .token_file = token_file},
                            .name_space = name_space,
                            .timeout = SecondsOf("timeout", timeout)});
          })
      .def_static("embed", &Store::Embed)
      .def("close", &Store::Close)
      .def("close_at_exit", &Store::CloseAtExit)
      .def("join", &Store::Join)
      .def("resume", [](Store& store) {
        return store.Call([](Session& session, const CallBounds& bounds) {
          return session.Resume(bounds);
        });
      });
}

void Store::RegisterValues(py::class_<Store>& store) {
  store.def("init", &Store::Init)
      .def("push", &Store::Push)
      .def("push_changes", &Store::PushChanges)
      .def("push_as", &Store::PushAs)
      .def("push_pull", &Store::PushPull)
      .def("pull", &Store::Pull)
      .def("pull_memory", &Store::PullMemory)
      .def("push_rows", &Store::PushRows)
      .def("pull_rows", &Store::PullRows)
      .def("set_state", &Store::SetState)
      .def("get_state", &Store::GetState)
      .def("set_compression", &Store::SetCompression);
}

void Store::RegisterKeys(py::class_<Store>& store) {
  store
      .def("delete",
           [](Store& store, const Keys& keys, bool allow_missing) {
             return store.Call([=](Client client) {
               return client.Delete(keys, allow_missing);
             });
           })
      .def("list",
           [](Store& store, const std::string& prefix,
              const std::optional<AtFields>& at) {
             return DescribeAll(store.Call([=](Client client) {
               return client.ListAll(prefix, ReferenceOf(at));
             }));
           })
      .def("stat",
           [](Store& store, const Keys& keys, bool compute_digests,
              const std::optional<AtFields>& at) {
             StatRequest request;
             request.mutable_keys()->Add(keys.begin(), keys.end());
             request.set_compute_digests(compute_digests);
             if (at) *request.mutable_at() = ReferenceOf(*at);
             const bool may_wait = at.has_value();
             return DescribeAll(
                 store
                     .Call([=](Client client) { return client.Stat(request); },
                           may_wait)
                     .keys());
           })
      .def("set_rule",
           [](Store& store, const std::string& text,
              const Hyperparameters& hyperparameters, bool keep_master,
              const std::string& key_pattern) {
             RuleSpec rule = ValueOrThrow(ParseRuleSpec(text));
             for (const auto& [name, value] : hyperparameters) {
               rule.hyperparameters[name] = value;
             }
             rule.keep_master &= keep_master;
             store.Call([=](Client client) {
               return client.SetRule(rule, key_pattern);
             });
           })
      .def("unset_rule",
           [](Store& store, const std::string& key_pattern) {
             store.Call(
                 [=](Client client) { return client.UnsetRule(key_pattern); });
           })
      .def("set_multipliers",
           [](Store& store, double learning_rate, double weight_decay,
              const std::string& key_pattern) {
             const Multipliers multipliers = {.learning_rate = learning_rate,
                                              .weight_decay = weight_decay};
             store.Call([=](Client client) {
               return client.SetMultipliers(multipliers, key_pattern);
             });
           })
      .def("unset_multipliers",
           [](Store& store, const std::string& key_pattern) {
             store.Call([=](Client client) {
               return client.UnsetMultipliers(key_pattern);
             });
           })
      .def("set_hyperparameters",
           [](Store& store, const Hyperparameters& hyperparameters,
              const std::string& key_pattern) {
             store.Call([=](Client client) {
               return client.SetHyperparameters(hyperparameters, key_pattern);
             });
           });
}

void Store::RegisterNamespaces(py::class_<Store>& store) {
  store
      .def("create_namespace",
           [](Store& store, const std::string& name, const py::dict& given,
              const std::string& on_existing) {
             const NamespaceConfig config = NamespaceConfigOf(given);
             const OnExisting existing =
                 ByName<OnExisting>("on_existing", on_existing);
             store.Call([=](Client client) {
               return client.CreateNamespace(name, config, existing);
             });
           })
      .def("update_namespace",
           [](Store& store, const std::string& name, const py::dict& given) {
             const NamespaceConfig config = NamespaceConfigOf(given);
             const Texts update_mask = UpdateMaskOf(given);
             store.Call([=](Client client) {
               return client.UpdateNamespace(name, config, update_mask);
             });
           })
      .def("describe_namespace",
           [](Store& store, const std::string& name) {
             return Describe(store.Call([=](Client client) {
               return client.DescribeNamespace(name);
             }));
           })
      .def("describe_steps",
           [](Store& store, uint64_t newest, uint64_t first, uint64_t last) {
             return DescribeAll(store.Call([=](Client client) {
               return client.DescribeNewestSteps(newest, first, last);
             }));
           })
      .def("list_namespaces",
           [](Store& store) {
             return DescribeAll(store.Call(
                 [](Client client) { return client.ListNamespaces(); }));
           })
      .def("delete_namespace",
           [](Store& store, const std::string& name) {
             store.Call(
                 [=](Client client) { return client.DeleteNamespace(name); });
           })
      .def("barrier", [](Store& store, const std::string& name) {
        store.Call(
            [=](Session& session, const CallBounds& bounds) {
              return session.Barrier(name, bounds);
            },
            /*may_wait=*/true);
      });
}

void Store::RegisterServer(py::class_<Store>& store) {
  store
      .def("save_checkpoint",
           [](Store& store, const std::string& name, const Texts& namespaces) {
             return Describe(store.Call([=](Client client) {
               return client.SaveCheckpoint(name, namespaces);
             }));
           })
      .def("restore_checkpoint",
           [](Store& store, const std::string& name, const Texts& namespaces,
              const std::string& as_namespace, const std::string& on_existing) {
             RestoreCheckpointRequest request;
             request.set_name(name);
             request.mutable_namespaces()->Add(namespaces.begin(),
                                               namespaces.end());
             request.set_as_namespace(as_namespace);
             request.set_on_existing(EncodeOnExisting(
                 ByName<OnExisting>("on_existing", on_existing)));
             return Describe(store.Call([=](Client client) {
               return client.RestoreCheckpoint(request);
             }));
           })
      .def("list_checkpoints",
           [](Store& store) {
             return DescribeAll(store.Call(
                 [](Client client) { return client.ListCheckpoints(); }));
           })
      .def("verify_checkpoint",
           [](Store& store, const std::string& name) {
             return Describe(store.Call(
                 [=](Client client) { return client.VerifyCheckpoint(name); }));
           })
      .def("delete_checkpoint",
           [](Store& store, const std::string& name) {
             store.Call(
                 [=](Client client) { return client.DeleteCheckpoint(name); });
           })
      .def("describe_server", [](Store& store) {
        return Describe(
            store.Call([](Client client) { return client.DescribeServer(); }));
      });
}

void Store::RegisterState(py::class_<Store>& store) {
  store.def_property_readonly("is_closed", &Store::is_closed)
      .def_property_readonly("is_worker",
                             [](const Store& store) {
                               return store.session()->worker() != nullptr;
                             })
      .def_property_readonly(
          "has_gone_back",
          [](const Store& store) { return store.session()->has_gone_back(); })
      .def_property_readonly("rank",
                             [](const Store& store) {
                               WorkerClient* worker = store.session()->worker();
                               return worker != nullptr ? worker->rank() : 0;
                             })
      .def_property_readonly("next_step",
                             [](const Store& store) -> Step {
                               const WorkerClient* worker =
                                   store.session()->worker();
                               return worker != nullptr ? worker->step() : 1;
                             })
      .def_property_readonly(
          "last_dropped_step", [](const Store& store) -> Step {
            WorkerClient* worker = store.session()->worker();
            return worker != nullptr ? worker->last_dropped_step() : 0;
          });
}

}  // namespace tensorkv::python
