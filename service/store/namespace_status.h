// Makes messages of what a store knows of its namespaces.

#ifndef TENSORKV_SERVICE_STORE_NAMESPACE_STATUS_H_
#define TENSORKV_SERVICE_STORE_NAMESPACE_STATUS_H_

#include "service/store/namespace_summary.h"
#include "service/store/rule_binding.h"
#include "tensorkv/v1/namespace.pb.h"

namespace tensorkv {

// Fill empty messages, as those of contract/proto_codec.h do. Pure functions,
// thread-safe.
void ToProto(const RuleBinding& binding, v1::RuleBinding* proto);
void ToProto(const MultipliersBinding& binding, v1::MultipliersBinding* proto);
// Fills in all but the configuration, the rules, the multipliers and the
// workers.
void ToProto(const NamespaceSummary& summary, v1::NamespaceStatus* proto);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_STORE_NAMESPACE_STATUS_H_
