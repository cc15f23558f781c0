#include "service/mirror/mirror_exchange.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/answer.h"

namespace tensorkv {
namespace {

// This server, as it calls itself.
class OwnPeer final : public UniformMirrorPeer<OwnPeer> {
 public:
  void SetSession(std::weak_ptr<MirrorSession> session) {
    session_ = std::move(session);
  }

  template <typename Request>
  void Send(const Request& request, absl::Duration,
            MirrorCallback<Request> done) {
    const std::shared_ptr<MirrorSession> session = session_.lock();
    if (session == nullptr) {
      return std::move(done)(absl::UnavailableError("the servers are others"));
    }
    session->Handle(request, std::move(done));
  }

 private:
  std::weak_ptr<MirrorSession> session_;
};

absl::Status Ends() { return absl::UnavailableError("the server ends"); }

}  // namespace

MirrorExchange::MirrorExchange(const Options& options, Alarms* alarms,
                               Backend* backend, DeviceLink* link)
    : options_(options),
      alarms_(*alarms),
      backend_(*backend),
      link_(link),
      device_thread_(link == nullptr ? nullptr : std::make_unique<Executor>()),
      executor_(options.runner) {}

void MirrorExchange::SetGroup(const std::vector<std::string>& servers,
                              uint32_t own, const MakePeer& make_peer) {
  const auto own_peer = std::make_shared<OwnPeer>();
  MirrorGroup group = {.servers = servers, .own = own};
  for (uint32_t i = 0; i < group.size(); ++i) {
    group.peers.push_back(i == own ? own_peer : make_peer(servers[i]));
  }
  const auto session = std::make_shared<MirrorSession>(
      std::move(group),
      MirrorSession::Environment{.times = options_.times,
                                 .alarms = &alarms_,
                                 .backend = &backend_,
                                 .link = link_,
                                 .device_thread = device_thread_.get(),
                                 .not_on_devices = options_.not_on_devices,
                                 .executor = &executor_,
                                 .counts = &counts_,
                                 .sums = sums_});
  own_peer->SetSession(session);
  std::shared_ptr<MirrorSession> former;
  {
    MutexLock lock(&mutex_);
    if (is_stopped_) return;
    if (session_ != nullptr && session_->group().servers == servers) return;
    former = std::exchange(session_, session);
    num_servers_ = static_cast<uint32_t>(servers.size());
    own_ = own;
  }
  if (former != nullptr) {
    former->Stop(absl::UnavailableError("the cluster has other servers"));
  }
}

bool MirrorExchange::Drain(absl::Duration timeout) {
  const std::shared_ptr<MirrorSession> session = this->session();
  return session == nullptr || session->member().Drain(Ends(), timeout);
}

void MirrorExchange::Stop() {
  std::shared_ptr<MirrorSession> session;
  {
    MutexLock lock(&mutex_);
    is_stopped_ = true;
    session = session_;
  }
  if (session == nullptr) return;
  session->Stop(Ends());
  sums_->Clear();
  // Sums may be made on a device.
  const Answer<bool> made;
  executor_.Submit([made] { made.Set(true); });
  made.Wait();
}

std::shared_ptr<MirrorSession> MirrorExchange::session() const {
  MutexLock lock(&mutex_);
  return session_;
}

absl::Status MirrorExchange::HasNoGroup() const {
  if (options_.awaits_group) {
    return absl::UnavailableError("the server knows no placement yet");
  }
  return absl::FailedPreconditionError("the server is in no cluster");
}

absl::Status MirrorExchange::CheckGroup(uint32_t num_workers) const {
  if (!options_.awaits_group && session() == nullptr) {
    return absl::UnimplementedError(
        "mirrored: expected a server of a cluster, got one by itself");
  }
  const uint32_t num_servers = num_servers_;
  if (num_workers >= num_servers) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("num_workers: expected at least one for each of the ",
                   num_servers, " servers that mirror, got ", num_workers));
}

bool MirrorExchange::IsLocal(uint32_t rank) const {
  return rank % num_servers_ == own_;
}

void MirrorExchange::Applied(const std::string& name_space,
                             absl::string_view key, Step step) {
  const std::shared_ptr<MirrorSession> session = this->session();
  if (session != nullptr) session->member().Applied(name_space, key, step);
}

void MirrorExchange::Remove(const std::string& name_space,
                            const std::string& key, Version version) {
  const std::shared_ptr<MirrorSession> session = this->session();
  if (session != nullptr) session->Remove(name_space, key, version);
}

void MirrorExchange::Forget(const std::string& name_space) {
  const std::shared_ptr<MirrorSession> session = this->session();
  if (session != nullptr) session->Forget(name_space);
}

void MirrorExchange::Sum(const std::string& name_space,
                         const RefPtr<BudgetAccount>& account,
                         std::vector<RoundToSum> rounds,
                         std::function<void(std::vector<SummedRound>)> summed) {
  const std::shared_ptr<MirrorSession> session = this->session();
  if (session != nullptr) {
    return session->member().Sum(name_space, account, std::move(rounds),
                                 std::move(summed));
  }
  std::vector<SummedRound> refused;
  for (size_t i = 0; i < rounds.size(); ++i) {
    refused.push_back(
        {i, absl::UnavailableError("the server knows no placement yet")});
  }
  summed(std::move(refused));
}

}  // namespace tensorkv
