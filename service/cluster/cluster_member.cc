#include "service/cluster/cluster_member.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "service/cluster/placement_maker.h"
#include "tensorkv/v1/cluster.pb.h"

namespace tensorkv {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::KeyValue;
using etcdserverpb::PutRequest;
using etcdserverpb::TxnRequest;
using etcdserverpb::TxnResponse;

// How often it looks for a placement that is being made, or for etcd.
constexpr absl::Duration kLongestWait = absl::Milliseconds(500);

// Several of them fit into a lease.
absl::Duration TimeoutOf(const ClusterOptions& options) {
  return std::min(options.lease / 5, absl::Seconds(5));
}

void CompareAbsent(const std::string& key, TxnRequest* txn) {
  Compare& compare = *txn->add_compare();
  compare.set_result(Compare::EQUAL);
  compare.set_target(Compare::CREATE);
  compare.set_key(key);
  compare.set_create_revision(0);
}

template <typename Message>
absl::StatusOr<Message> ParsedValue(const KeyValue& entry) {
  Message message;
  if (message.ParseFromString(entry.value())) return message;
  return absl::DataLossError(absl::StrCat(
      "etcd has what is no ", message.GetTypeName(), " at ", entry.key()));
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
                       .is_live = true};
}

// The servers of the placement as they are registered now; those are in order
// of their names.
ClusterPlacement WithRegistered(ClusterPlacement placement,
                                const std::vector<ClusterServer>& registered) {
  for (ClusterServer& server : placement.servers) {
    const auto found = std::ranges::lower_bound(registered, server.name, {},
                                                &ClusterServer::name);
    server.is_live = found != registered.end() && found->name == server.name;
    if (server.is_live) server.address = found->address;
  }
  return placement;
}

}  // namespace

ClusterMember::ClusterMember(ClusterOptions options, KnownPlacement* known,
                             Listener listener)
    : options_(std::move(options)),
      known_(*known),
      listener_(std::move(listener)),
      etcd_(options_.etcd, TimeoutOf(options_)),
      thread_([this] { Run(); }) {}

void ClusterMember::Stop() {
  {
    MutexLock lock(&mutex_);
    if (stopping_) return;
    stopping_ = true;
    changed_.SignalAll();
  }
  thread_.join();
}

void ClusterMember::Run() {
  absl::Status turn;
  do {
    turn = Turn();
    Report(turn);
  } while (!is_replaced_ && !Sleep(PauseAfter(turn)));
  is_in_touch_ = false;
  // Else the others see only at its end that the server is gone.
  if (lease_ == 0 || !turn.ok()) return;
  etcd_.RevokeLease(lease_).IgnoreError();  // it ends by itself, too
}

bool ClusterMember::Sleep(absl::Duration pause) {
  MutexLock lock(&mutex_);
  if (!stopping_) changed_.WaitWithTimeout(&mutex_, pause);
  return stopping_;
}

absl::Duration ClusterMember::PauseAfter(const absl::Status& turn) const {
  const absl::Duration third = options_.lease / 3;
  return turn.ok() && is_placed_ ? third : std::min(third, kLongestWait);
}

void ClusterMember::Report(const absl::Status& turn) {
  is_in_touch_ = turn.ok();
  if (reported_ == turn.ok()) return;
  reported_ = turn.ok();
  listener_.log(turn.ok() ? absl::StrCat("cluster: registered as ",
                                         options_.server_name, " at ",
                                         options_.address)
                          : absl::StrCat("cluster: out of touch, what is known "
                                         "stays: ",
                                         turn.message()));
}

absl::Status ClusterMember::Turn() {
  RETURN_IF_ERROR(HoldLease());
  if (!is_registered_) RETURN_IF_ERROR(Register());
  ASSIGN_OR_RETURN(Reading reading, Read());
  if (reading.placement.owners.empty()) {
    const ClusterPlacement placement = PlacementToCreate(reading.servers);
    if (placement.owners.empty()) return Publish(std::move(reading));
    RETURN_IF_ERROR(Create(placement));
    ASSIGN_OR_RETURN(reading, Read());
  }
  return Publish(std::move(reading));
}

absl::Status ClusterMember::HoldLease() {
  if (lease_ != 0) {
    const absl::Status renewed = etcd_.RenewLease(lease_);
    if (!absl::IsNotFound(renewed)) return renewed;
    is_registered_ = false;
  }
  ASSIGN_OR_RETURN(lease_, etcd_.GrantLease(options_.lease));
  return absl::OkStatus();
}

absl::Status ClusterMember::Register() {
  const std::string key = absl::StrCat(ServersPrefix(), options_.server_name);
  v1::ClusterServer server;
  server.set_name(options_.server_name);
  server.set_address(options_.address);
  server.set_weight(options_.weight);
  TxnRequest txn;
  // Who comes back after its lease leaves the name to who has come since; Read
  // tells which it was.
  if (was_registered_) CompareAbsent(key, &txn);
  PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key(key);
  put.set_value(server.SerializeAsString());
  put.set_lease(lease_);
  RETURN_IF_ERROR(etcd_.Txn(txn).status());
  is_registered_ = true;
  was_registered_ = true;
  return absl::OkStatus();
}

absl::StatusOr<ClusterMember::Reading> ClusterMember::Read() {
  TxnRequest txn;
  txn.add_success()->mutable_request_range()->set_key(PlacementKey());
  auto& servers = *txn.add_success()->mutable_request_range();
  servers.set_key(ServersPrefix());
  servers.set_range_end(absl::StrCat(ServersPrefix(), "\xff"));
  ASSIGN_OR_RETURN(const TxnResponse response, etcd_.Txn(txn));
  if (response.responses_size() != 2) {
    return absl::InternalError("etcd: expected two responses");
  }
  Reading reading;
  for (const KeyValue& entry : response.responses(0).response_range().kvs()) {
    ASSIGN_OR_RETURN(const auto proto,
                     ParsedValue<v1::ClusterPlacement>(entry));
    ASSIGN_OR_RETURN(reading.placement, FromProto(proto));
  }
  for (const KeyValue& entry : response.responses(1).response_range().kvs()) {
    AddRegistered(entry, reading);
  }
  return reading;
}

void ClusterMember::AddRegistered(const KeyValue& entry, Reading& reading) {
  const absl::string_view name =
      absl::StripPrefix(entry.key(), ServersPrefix());
  if (name == options_.server_name) reading.own_lease = entry.lease();
  absl::StatusOr<ClusterServer> server = RegisteredAs(name, entry);
  if (server.ok()) {
    reading.servers.push_back(*std::move(server));
  } else if (passed_over_.insert(entry.key()).second) {
    listener_.log(absl::StrCat("cluster: passed over a registration: ",
                               server.status().message()));
  }
}

ClusterPlacement ClusterMember::PlacementToCreate(
    const std::vector<ClusterServer>& servers) const {
  ClusterPlacement known = known_.Describe().placement;
  if (!known.owners.empty() || servers.size() < options_.size) return known;
  return MakePlacement(
      {.cluster = options_.cluster, .split_bytes = options_.split_bytes},
      servers, options_.num_partitions);
}

absl::Status ClusterMember::Create(const ClusterPlacement& placement) {
  v1::ClusterPlacement proto;
  ToProto(placement, &proto);
  TxnRequest txn;
  CompareAbsent(PlacementKey(), &txn);
  PutRequest& put = *txn.add_success()->mutable_request_put();
  put.set_key(PlacementKey());
  put.set_value(proto.SerializeAsString());
  ASSIGN_OR_RETURN(const TxnResponse response, etcd_.Txn(txn));
  if (response.succeeded()) {
    listener_.log(absl::StrCat("cluster: made the placement of ",
                               placement.servers.size(), " servers"));
  }
  return absl::OkStatus();
}

absl::Status ClusterMember::Publish(Reading reading) {
  is_replaced_ = reading.own_lease != 0 && reading.own_lease != lease_;
  // Its lease ended between the calls: the next turn registers it.
  if (reading.own_lease == 0) is_registered_ = false;
  if (!reading.placement.owners.empty()) {
    const ClusterPlacement placement =
        WithRegistered(std::move(reading.placement), reading.servers);
    const ClusterPlacement before = known_.Describe().placement;
    RETURN_IF_ERROR(
        known_.Set(placement, is_replaced_ ? "" : options_.server_name));
    LogLiveness(before, placement);
    if (!std::exchange(is_placed_, true)) listener_.placed();
  }
  if (is_replaced_) {
    listener_.log(absl::StrCat("cluster: another server has the name ",
                               options_.server_name,
                               "; this one owns nothing any more"));
    listener_.replaced();
  }
  return absl::OkStatus();
}

void ClusterMember::LogLiveness(const ClusterPlacement& before,
                                const ClusterPlacement& placement) const {
  std::map<absl::string_view, bool> was_live;
  for (const ClusterServer& server : before.servers) {
    was_live[server.name] = server.is_live;
  }
  for (const ClusterServer& server : placement.servers) {
    const auto found = was_live.find(server.name);
    if (found == was_live.end() || found->second == server.is_live) continue;
    listener_.log(absl::StrCat("cluster: ", server.name,
                               server.is_live ? " is live" : " is not live"));
  }
}

std::string ClusterMember::PlacementKey() const {
  return absl::StrCat("/tensorkv/", options_.cluster, "/placement");
}

std::string ClusterMember::ServersPrefix() const {
  return absl::StrCat("/tensorkv/", options_.cluster, "/servers/");
}

}  // namespace tensorkv
