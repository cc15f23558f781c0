// What Python sees of a Store.

#include <pybind11/stl.h>

#include "python/core/namespace_config.h"
#include "python/core/seconds_of.h"
#include "python/core/store.h"

namespace tensorkv::python {

namespace py = pybind11;
using namespace py::literals;

void Store::Register(py::module_& module) {
  py::class_<Store> store(module, "Store");
  RegisterOpening(store);
  RegisterValues(store);
  RegisterStarted(store);
  RegisterKeys(store);
  RegisterNamespaces(store);
  RegisterState(store);
}

void Store::RegisterOpening(py::class_<Store>& store) {
  store
      .def_static(
          "connect",
          [](const std::string& address, const std::string& name_space,
             double timeout, const std::string& tls_ca,
             const std::string& tls_cert, const std::string& tls_key,
             const std::string& tls_server_name,
             const std::string& token_file) {
            return Connect({.target = address,
                            .credentials = {.tls_ca = tls_ca,
                                            .tls_cert = tls_cert,
                                            .tls_key = tls_key,
                                            .tls_server_name = tls_server_name,
                                            .token_file = token_file},
                            .name_space = name_space,
                            .timeout = SecondsOf("timeout", timeout)});
          },
          "address"_a, "namespace"_a, "timeout"_a, "tls_ca"_a, "tls_cert"_a,
          "tls_key"_a, "tls_server_name"_a, "token_file"_a)
      .def_static("embed", &Store::Embed, "num_threads"_a)
      .def("close", &Store::Close, "is_lost"_a)
      .def("close_at_exit", &Store::CloseAtExit)
      .def("join", &Store::Join, "name"_a, "lease"_a, "takeover_timeout"_a,
           "step_timeout"_a, "rank"_a)
      .def("resume", &Store::Resume);
}

void Store::RegisterValues(py::class_<Store>& store) {
  store
      .def("init", &Store::Init, "keys"_a, "arrays"_a, "on_existing"_a,
           "state"_a)
      .def("push", &Store::Push, "keys"_a, "arrays"_a, "step"_a, "weights"_a)
      .def("push_pull", &Store::PushPull, "keys"_a, "arrays"_a, "outs"_a,
           "step"_a, "weights"_a)
      .def("pull", &Store::Pull, "keys"_a, "outs"_a, "wait"_a, "min_version"_a,
           "state"_a, "dtype"_a)
      .def("pull_memory", &Store::PullMemory, "keys"_a, "wait"_a,
           "min_version"_a, "dtype"_a)
      .def("push_rows", &Store::PushRows, "keys"_a, "row_ids"_a, "arrays"_a,
           "step"_a, "update_all_rows"_a)
      .def("pull_rows", &Store::PullRows, "keys"_a, "row_ids"_a)
      .def("set_compression", &Store::SetCompression, "compression"_a,
           "min_bytes"_a);
}

void Store::RegisterStarted(py::class_<Store>& store) {
  store
      .def("start_push", &Store::StartPush, "inbox"_a, "call"_a, "keys"_a,
           "arrays"_a, "step"_a, "weights"_a)
      .def("start_push_pull", &Store::StartPushPull, "inbox"_a, "call"_a,
           "keys"_a, "arrays"_a, "outs"_a, "step"_a, "weights"_a)
      .def("start_pull", &Store::StartPull, "inbox"_a, "call"_a, "keys"_a,
           "outs"_a, "wait"_a, "min_version"_a, "state"_a, "dtype"_a)
      .def_property_readonly("may_start", [](const Store& store) {
        return store.session()->may_start();
      });
}

void Store::RegisterKeys(py::class_<Store>& store) {
  store.def("delete", &Store::Delete, "keys"_a, "allow_missing"_a)
      .def("list", &Store::List, "prefix"_a)
      .def("stat", &Store::Stat, "keys"_a, "with_digest"_a)
      .def("set_rule", &Store::SetRule, "rule"_a, "hyperparameters"_a,
           "keep_master"_a, "key_pattern"_a)
      .def("set_multipliers", &Store::SetMultipliers, "learning_rate"_a,
           "weight_decay"_a, "key_pattern"_a)
      .def("set_hyperparameters", &Store::SetHyperparameters,
           "hyperparameters"_a, "key_pattern"_a);
}

void Store::RegisterNamespaces(py::class_<Store>& store) {
  store.def("create_namespace", &Store::CreateNamespace, "name"_a, "config"_a)
      .def("describe_namespace", &Store::DescribeNamespace, "name"_a)
      .def("list_namespaces", &Store::ListNamespaces)
      .def("delete_namespace", &Store::DeleteNamespace, "name"_a)
      .def("barrier", &Store::Barrier, "name"_a)
      .def("save_checkpoint", &Store::SaveCheckpoint, "name"_a, "namespaces"_a)
      .def("restore_checkpoint", &Store::RestoreCheckpoint, "name"_a,
           "namespaces"_a, "as_namespace"_a, "on_existing"_a)
      .def("list_checkpoints", &Store::ListCheckpoints)
      .def("describe_server", &Store::DescribeServer);
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
      .def_property_readonly("next_step", [](const Store& store) -> Step {
        WorkerClient* worker = store.session()->worker();
        return worker != nullptr ? worker->step() : 1;
      });
}

}  // namespace tensorkv::python
