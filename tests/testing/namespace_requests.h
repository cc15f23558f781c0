// Makes the requests about namespaces, and reads what is answered.

#ifndef TENSORKV_TESTS_TESTING_NAMESPACE_REQUESTS_H_
#define TENSORKV_TESTS_TESTING_NAMESPACE_REQUESTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "contract/proto_codec.h"
#include "contract/requests.h"

namespace tensorkv::testing {

// The uid 0 stands for one that the store draws.
inline CreateNamespaceRequest CreateOf(
    const std::string& name, const NamespaceConfig& config = {},
    OnExisting on_existing = OnExisting::kFail, uint64_t uid = 0) {
  CreateNamespaceRequest request;
  request.set_namespace_(name);
  request.set_namespace_uid(uid);
  ToProto(config, request.mutable_config());
  request.set_on_existing(EncodeOnExisting(on_existing));
  return request;
}

inline DescribeNamespaceRequest DescribeOf(const std::string& name) {
  DescribeNamespaceRequest request;
  request.set_namespace_(name);
  return request;
}

inline UpdateNamespaceRequest UpdateOf(
    const std::string& name, const NamespaceConfig& config,
    const std::vector<std::string>& update_mask, uint64_t uid = 0) {
  UpdateNamespaceRequest request;
  request.set_namespace_(name);
  request.set_namespace_uid(uid);
  ToProto(config, request.mutable_config());
  request.mutable_update_mask()->mutable_paths()->Add(update_mask.begin(),
                                                      update_mask.end());
  return request;
}

// The uid 0 stands for whichever namespace has the name.
inline DeleteNamespaceRequest RemoveOf(const std::string& name,
                                       uint64_t uid = 0) {
  DeleteNamespaceRequest request;
  request.set_namespace_(name);
  request.set_namespace_uid(uid);
  return request;
}

// Returns the status of a namespace that the store has.
template <typename Store>
NamespaceStatus Described(Store& store, const std::string& name = "") {
  return store.DescribeNamespace(DescribeOf(name)).value().status();
}

inline NamespaceConfig ConfigOf(const NamespaceStatus& status) {
  return FromProto(status.config()).value();
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_NAMESPACE_REQUESTS_H_
