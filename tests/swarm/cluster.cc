#include "tests/swarm/cluster.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/status_macros.h"
#include "service/cluster/placement_changes.h"
#include "tests/swarm/elements.h"
#include "tests/swarm/scheduler.h"

namespace tensorkv::swarm {
namespace {

using etcdserverpb::Compare;
using etcdserverpb::KeyValue;
using etcdserverpb::RequestOp;

void Ignore(const std::string&) {}

MemoryTensorStoreOptions With(MemoryTensorStoreOptions options,
                              RoundExchange* exchange) {
  options.exchange = exchange;
  return options;
}

class FakeEtcdClient final : public Etcd {
 public:
  FakeEtcdClient(FakeEtcd* etcd, Link* link) : etcd_(*etcd), link_(*link) {}

  absl::StatusOr<etcdserverpb::TxnResponse> Txn(
      const etcdserverpb::TxnRequest& request) override {
    RETURN_IF_ERROR(link_.Send());
    etcdserverpb::TxnResponse response = etcd_.Txn(request);
    RETURN_IF_ERROR(link_.Hear());
    return response;
  }
  absl::StatusOr<int64_t> GrantLease(absl::Duration) override {
    return etcd_.GrantLease();
  }
  absl::Status RenewLease(int64_t) override { return absl::OkStatus(); }
  absl::Status RevokeLease(int64_t lease) override {
    etcd_.EndLease(lease);
    return absl::OkStatus();
  }

 private:
  FakeEtcd& etcd_;
  Link& link_;
};

}  // namespace

bool Link::TakeOne(std::atomic<int>& count) {
  if (count == 0) return false;
  --count;
  return true;
}

absl::Status Link::Pass(std::atomic<int>& to_lose) {
  if (is_slow) Scheduler::PauseHere(Pause::kNetwork);
  if (!is_cut && !TakeOne(to_lose)) return absl::OkStatus();
  return absl::UnavailableError("the message is lost");
}

bool FakeEtcd::Holds(const Compare& compare) const {
  const auto found = entries_.find(compare.key());
  const bool is_there = found != entries_.end();
  if (compare.target() == Compare::CREATE) {
    return compare.create_revision() ==
           (is_there ? found->second.create_revision() : 0);
  }
  return compare.mod_revision() ==
         (is_there ? found->second.mod_revision() : 0);
}

etcdserverpb::TxnResponse FakeEtcd::Txn(
    const etcdserverpb::TxnRequest& request) {
  MutexLock lock(&mutex_);
  etcdserverpb::TxnResponse response;
  for (const Compare& compare : request.compare()) {
    if (!Holds(compare)) return response;
  }
  response.set_succeeded(true);
  for (const RequestOp& operation : request.success()) {
    auto& result = *response.add_responses();
    if (operation.has_request_put()) {
      const auto& put = operation.request_put();
      result.mutable_response_put();
      KeyValue& entry = entries_[put.key()];
      ++revision_;
      if (entry.create_revision() == 0) entry.set_create_revision(revision_);
      entry.set_key(put.key());
      entry.set_value(put.value());
      entry.set_lease(put.lease());
      entry.set_mod_revision(revision_);
      continue;
    }
    const auto& range = operation.request_range();
    auto& found = *result.mutable_response_range();
    const bool is_one = range.range_end().empty();
    for (auto it = entries_.lower_bound(range.key()); it != entries_.end();
         ++it) {
      if (is_one ? it->first != range.key() : it->first >= range.range_end()) {
        break;
      }
      *found.add_kvs() = it->second;
    }
  }
  return response;
}

int64_t FakeEtcd::GrantLease() {
  MutexLock lock(&mutex_);
  return ++last_lease_;
}

void FakeEtcd::EndLease(int64_t lease) {
  MutexLock lock(&mutex_);
  ++revision_;
  std::erase_if(entries_,
                [&](const auto& each) { return each.second.lease() == lease; });
}

int64_t FakeEtcd::revision() const {
  MutexLock lock(&mutex_);
  return revision_;
}

std::unique_ptr<Etcd> ConnectEtcd(FakeEtcd* etcd, Link* link) {
  return std::make_unique<FakeEtcdClient>(etcd, link);
}

Admin::Admin()
    : records_(ClusterOptionsOf("admin"), Ignore, ConnectEtcd(&etcd_, &link_)) {
}

const ClusterPlacement& Admin::Placement() {
  const int64_t revision = etcd_.revision();
  if (revision != std::exchange(revision_, revision)) {
    placement_ = records_.Read()->placement;
  }
  return placement_;
}

absl::Status Fill(Restoration& restoration,
                  const std::vector<SavedSpace>& saved) {
  for (const SavedSpace& each : saved) {
    RETURN_IF_ERROR(restoration.Begin(each.name_space));
    RETURN_IF_ERROR(restoration.Add(CopiesOf(each.keys)));
  }
  return restoration.Commit();
}

absl::Status ServerIsGone() {
  return absl::UnavailableError("the server is gone");
}

uint32_t AnyServer(const Servers& servers, uint32_t chance) {
  std::vector<uint32_t> live;
  for (uint32_t i = 0; i < servers.size(); ++i) {
    if (!servers[i]->is_dead) live.push_back(i);
  }
  return live[chance % live.size()];
}

uint32_t ServerOf(const Servers& servers, const std::string& name) {
  const auto found = std::ranges::find_if(
      servers, [&](const auto& each) { return each->name() == name; });
  return static_cast<uint32_t>(found - servers.begin());
}

ClusterOptions ClusterOptionsOf(const std::string& name) {
  return {.cluster = "swarm", .server_name = name, .address = name + ":1"};
}

Server::Moving::Moving(Server& server, Peers peers)
    : environment{.server_name = server.name_,
                  .store = &server.store_,
                  .known = &server.known_,
                  .own_lease = [&server] { return server.lease_; }},
      records(ClusterOptionsOf(server.name_), Ignore,
              ConnectEtcd(peers.etcd, &server.link_)),
      receiver(ClusterOptionsOf(server.name_), environment,
               ClusterRecords(ClusterOptionsOf(server.name_), Ignore,
                              ConnectEtcd(peers.etcd, &server.link_))),
      // What it waits for ends by `goes_on`.
      sender(environment, &records, std::move(peers.call),
             /*patience=*/absl::InfiniteDuration(), std::move(peers.goes_on)),
      restorer(environment, &records, &receiver, std::move(peers.checkpoints),
               Ignore) {}

Server::Server(std::string name, MemoryTensorStoreOptions options,
               Alarms* alarms, Peers peers)
    : name_(std::move(name)),
      exchange_(name_.empty()
                    ? nullptr
                    : std::make_unique<MirrorExchange>(
                          MirrorExchange::Options{.awaits_group = true,
                                                  .runner = peers.runner},
                          alarms, &backend_)),
      store_(With(std::move(options), exchange_.get()), &backend_, alarms),
      empty_bytes_(store_.used_bytes()),
      known_(name_,
             [this](const KnownPlacement::View& view) {
               store_.Own(view.own_partitions());
             }),
      own_keys_(
          &known_,
          [this](absl::string_view name_space, const Caller& caller,
                 const CallId& id) {
            return store_.Knows(name_space, caller, id);
          },
          [this](absl::string_view name_space) {
            return store_.IsMirrored(name_space);
          }),
      front_(
          {.store = &store_,
           .namespaces = &store_,
           .stages = {&own_keys_},
           .list = [this](const ListRequest& request, const CallContext& in) {
             return own_keys_.List(request,
                                   [&] { return store_.List(request, in); });
           }}) {
  if (name_.empty()) return;
  lease_ = peers.etcd->GrantLease();
  moving_ = std::make_unique<Moving>(*this, std::move(peers));
  moving_->records.Register(lease_, /*only_if_absent=*/false).IgnoreError();
}

void Server::Stop() {
  if (exchange_ != nullptr) exchange_->Stop();
  store_.Stop();
}

absl::Status Server::Learn() {
  ASSIGN_OR_RETURN(ClusterReading reading, moving_->records.Read());
  if (reading.placement.owners.empty()) return absl::OkStatus();
  return known_.Set(std::move(reading.placement), name_);
}

absl::Status Server::MoveOrRestore(const ClusterServer* to, uint32_t chosen) {
  if (is_unsettled()) return moving_->sender.Settle().status();
  ASSIGN_OR_RETURN(const ClusterReading reading, moving_->records.Read());
  moving_->receiver.EndAbandoned(reading);
  ASSIGN_OR_RETURN(const bool has_restored, moving_->restorer.RunOnce(reading));
  if (has_restored || to == nullptr) return absl::OkStatus();
  const std::set<uint32_t> missing = MissingIn(reading.placement);
  const auto num_partitions =
      static_cast<uint32_t>(reading.placement.owners.size());
  std::vector<uint32_t> partitions;
  for (uint32_t i = 0; i < num_partitions; ++i) {
    if ((chosen >> i & 1) == 0 || missing.contains(i)) continue;
    if (OwnerName(reading.placement, i) == name_) partitions.push_back(i);
  }
  if (partitions.empty()) return absl::OkStatus();
  return moving_->sender.Move(*to, std::move(partitions), num_partitions);
}

}  // namespace tensorkv::swarm
