#include "service/cluster/cluster_records.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "tensorkv/v1/cluster.pb.h"

namespace tensorkv {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::KeyValue;
using etcdserverpb::PutRequest;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

std::string PrefixOf(const ClusterOptions& options) {
  return absl::StrCat("/tensorkv/", options.cluster, "/");
}

void CompareAbsent(const std::string& key, TxnRequest* txn) {
  Compare& compare = *txn->add_compare();
  compare.set_result(Compare::EQUAL);
  compare.set_target(Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(0);
}

// A revision of 0 says that there is none.
void CompareRevision(const std::string& key, int64_t revision,
                     TxnRequest* txn) {
  Compare& compare = *txn->add_compare();
  compare.set_result(Compare::EQUAL);
  compare.set_target(Compare::MOD);
  compare.set_key(key);
  compare.set_mod_revision(revision);
}

void Put(const std::string& key, const ClusterPlacement& placement,
         TxnRequest* txn) {
  v1::ClusterPlacement proto;
  ToProto(placement, &proto);
  PutRequest& put = *txn->add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(proto.SerializeAsString());
}

template <typename Message>
absl::StatusOr<Message> ParsedValue(const KeyValue& entry) {
  Message message;
  if (message.ParseFromString(entry.value())) return message;
  return absl::DataLossError(absl::StrCat(
      "etcd has what is no ", message.GetTypeName(), " at ", entry.key()));
}

absl::StatusOr<ClusterPlacement> PlacementIn(const KeyValue& entry) {
  ASSIGN_OR_RETURN(const auto proto, ParsedValue<v1::ClusterPlacement>(entry));
  return FromProto(proto);
}

absl::StatusOr<ClusterServer> RegisteredAs(absl::string_view name,
                                           const KeyValue& entry) {
  ASSIGN_OR_RETURN(const auto proto, ParsedValue<v1::ClusterServer>(entry));
  if (proto.name() != name) {
    return absl::DataLossError(
        absl::StrCat("etcd has another server's name at ", entry.key()));
  }
  if (!(proto.weight() > 0) || !std::isfinite(proto.weight())) {
    return absl::DataLossError(
        absl::StrCat("etcd has a weight that is none at ", entry.key()));
  }
  return ClusterServer{.name = proto.name(),
                       .address = proto.address(),
                       .weight = proto.weight(),
                       .live = true};
}

// Makes the servers of the placement what they are registered as now; those are
// in order of their names.
void TakeRegistered(const std::vector<ClusterServer>& registered,
                    ClusterPlacement& placement) {
  for (ClusterServer& server : placement.servers) {
    const auto found = std::ranges::lower_bound(registered, server.name, {},
                                                &ClusterServer::name);
    server.live = found != registered.end() && found->name == server.name;
    if (server.live) server.address = found->address;
  }
}

}  // namespace

ClusterRecords::ClusterRecords(const ClusterOptions& options, Log log,
                               std::unique_ptr<Etcd> etcd)
    : options_(options),
      prefix_(PrefixOf(options)),
      log_(std::move(log)),
      etcd_(std::move(etcd)) {}

ClusterRecords::ClusterRecords(const ClusterOptions& options, Log log,
                               Channels* etcd)
    : ClusterRecords(
          options, std::move(log),
          std::make_unique<EtcdClient>(
              EtcdClient::Options{
                  .endpoints = options.etcd,
                  .timeout = std::min(options.lease / 5, absl::Seconds(5)),
                  .user = options.etcd_user,
                  .prefix = PrefixOf(options)},
              etcd)) {}

// The rights to a write are looked at also where its condition does not hold.
absl::Status ClusterRecords::CheckAccess() {
  TxnRequest txn;
  Compare& never = *txn.add_compare();
  never.set_result(Compare::EQUAL);
  never.set_target(Compare::CREATE);
  never.set_key(PlacementKey());
  never.set_create_revision(-1);
  AddRangeOfAll(&txn);
  txn.add_success()->mutable_request_put()->set_key(PlacementKey());
  txn.add_success()->mutable_request_put()->set_key(OwnKey());
  return etcd_->Txn(txn).status();
}

void ClusterRecords::AddRangeOfAll(TxnRequest* txn) const {
  txn->add_success()->mutable_request_range()->set_key(PlacementKey());
  txn->add_success()->mutable_request_range()->set_key(WantedKey());
  auto& servers = *txn->add_success()->mutable_request_range();
  servers.set_key(ServersPrefix());
  servers.set_range_end(absl::StrCat(ServersPrefix(), "\xff"));
}

absl::StatusOr<ClusterReading> ClusterRecords::Read() {
  TxnRequest txn;
  AddRangeOfAll(&txn);
  ASSIGN_OR_RETURN(const TxnResponse response, etcd_->Txn(txn));
  if (response.responses_size() != 3) {
    return absl::InternalError("etcd: expected three responses");
  }
  ClusterReading reading;
  for (const KeyValue& entry : response.responses(2).response_range().kvs()) {
    AddRegistered(entry, reading);
  }
  for (const KeyValue& entry : response.responses(0).response_range().kvs()) {
    ASSIGN_OR_RETURN(reading.placement, PlacementIn(entry));
    reading.placement_revision = entry.mod_revision();
    TakeRegistered(reading.servers, reading.placement);
  }
  reading.wanted = reading.placement.servers;
  for (const KeyValue& entry : response.responses(1).response_range().kvs()) {
    ASSIGN_OR_RETURN(ClusterPlacement wanted, PlacementIn(entry));
    reading.wanted_revision = entry.mod_revision();
    TakeRegistered(reading.servers, wanted);
    reading.wanted = std::move(wanted.servers);
  }
  return reading;
}

void ClusterRecords::AddRegistered(const KeyValue& entry,
                                   ClusterReading& reading) {
  const absl::string_view name =
      absl::StripPrefix(entry.key(), ServersPrefix());
  reading.registrations[std::string(name)] = {entry.lease(),
                                              entry.mod_revision()};
  absl::StatusOr<ClusterServer> server = RegisteredAs(name, entry);
  if (server.ok()) {
    reading.servers.push_back(*std::move(server));
  } else if (passed_over_.insert(entry.key()).second) {
    log_(absl::StrCat("cluster: passed over a registration: ",
                      server.status().message()));
  }
}

absl::Status ClusterRecords::Register(int64_t lease, bool only_if_absent) {
  const std::string key = OwnKey();
  v1::ClusterServer server;
  server.set_name(options_.server_name);
  server.set_address(options_.address);
  server.set_weight(options_.weight);
  TxnRequest txn;
  if (only_if_absent) CompareAbsent(key, &txn);
  PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(server.SerializeAsString());
  put.set_lease(lease);
  return etcd_->Txn(txn).status();
}

absl::StatusOr<bool> ClusterRecords::Write(const TxnRequest& txn) {
  ASSIGN_OR_RETURN(const TxnResponse response, etcd_->Txn(txn));
  return response.succeeded();
}

absl::StatusOr<bool> ClusterRecords::CreatePlacement(
    const ClusterPlacement& placement) {
  TxnRequest txn;
  CompareAbsent(PlacementKey(), &txn);
  Put(PlacementKey(), placement, &txn);
  return Write(txn);
}

absl::StatusOr<bool> ClusterRecords::ReplacePlacement(
    const ClusterPlacement& placement, int64_t revision,
    const std::map<std::string, int64_t>& registrations) {
  TxnRequest txn;
  CompareRevision(PlacementKey(), revision, &txn);
  for (const auto& [name, its_revision] : registrations) {
    CompareRevision(absl::StrCat(ServersPrefix(), name), its_revision, &txn);
  }
  Put(PlacementKey(), placement, &txn);
  return Write(txn);
}

absl::StatusOr<bool> ClusterRecords::SetWanted(
    const std::vector<ClusterServer>& servers, int64_t revision) {
  TxnRequest txn;
  CompareRevision(WantedKey(), revision, &txn);
  Put(WantedKey(), {.cluster = options_.cluster, .servers = servers}, &txn);
  return Write(txn);
}

absl::StatusOr<bool> ClusterRecords::ReplacePlacementAndWanted(
    const ClusterPlacement& placement, const std::vector<ClusterServer>& wanted,
    const ClusterReading& read, const std::vector<std::string>& gone) {
  TxnRequest txn;
  CompareRevision(PlacementKey(), read.placement_revision, &txn);
  CompareRevision(WantedKey(), read.wanted_revision, &txn);
  for (const std::string& name : gone) {
    CompareAbsent(absl::StrCat(ServersPrefix(), name), &txn);
  }
  Put(PlacementKey(), placement, &txn);
  Put(WantedKey(), {.cluster = options_.cluster, .servers = wanted}, &txn);
  return Write(txn);
}

}  // namespace tensorkv
