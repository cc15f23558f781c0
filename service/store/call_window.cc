#include "service/store/call_window.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/shown_text.h"
#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxClientIdBytes = 64;

// Count what a client and a call take besides their variable parts: tree and
// list nodes, hash table, control blocks.
constexpr uint64_t kClientOverheadBytes = 512;
constexpr uint64_t kCallOverheadBytes = 384;

// Counts what an attempt that waits takes besides its request.
constexpr uint64_t kWaiterOverheadBytes = 2048;

// Room for the message of an error and its reason; longer messages are kept cut
// off.
constexpr uint64_t kMaxErrorBytes = 768;

// Says how many clients Save looks at at a time: about 0.1 ms.
constexpr size_t kClientsPerLock = 512;

// Attempts of one call that may wait. Each begins when the one before ends,
// on that one's stack.
constexpr size_t kMaxWaiters = 16;

uint64_t SizeOf(std::monostate) { return 0; }
uint64_t SizeOf(const InitReply& reply) {
  return reply.versions.size() * sizeof(Version);
}
uint64_t SizeOf(const PushReply& reply) {
  return reply.results.size() * sizeof(PushResult);
}
uint64_t SizeOf(const DeleteReply&) { return 0; }
uint64_t SizeOf(const CreateNamespaceReply&) { return 0; }
uint64_t SizeOf(const JoinReply&) { return 0; }
uint64_t SizeOf(const RuleSpec& rule) {
  constexpr uint64_t kHyperparameterBytes = 128;
  const ScheduleSpec& schedule = rule.schedule;
  return rule.name.size() + rule.expression.size() + schedule.name.size() +
         schedule.steps.size() * sizeof(schedule.steps[0]) +
         (rule.hyperparameters.size() + schedule.arguments.size()) *
             kHyperparameterBytes;
}

uint64_t ReasonBytes(const absl::Status& status) {
  const absl::optional<absl::Cord> reason =
      status.GetPayload(kErrorInfoTypeUrl);
  return reason ? reason->size() : 0;
}

uint64_t SizeOf(const CallAnswer& answer) {
  if (!answer.ok()) {
    return answer.status().message().size() + ReasonBytes(answer.status());
  }
  return std::visit([](const auto& reply) { return SizeOf(reply); }, *answer);
}

// `answer`, its message cut off where the whole exceeds `max_bytes`. The reason
// stays: programs go by it.
CallAnswer Limited(const CallAnswer& answer, uint64_t max_bytes) {
  if (answer.ok() || SizeOf(answer) <= max_bytes) return answer;
  const absl::Status& status = answer.status();
  const uint64_t headroom =
      max_bytes - std::min(max_bytes, ReasonBytes(status));
  absl::Status limited(status.code(), Utf8Prefix(status.message(), headroom));
  if (absl::optional<absl::Cord> reason =
          status.GetPayload(kErrorInfoTypeUrl)) {
    limited.SetPayload(kErrorInfoTypeUrl, *std::move(reason));
  }
  return limited;
}

std::string NameOf(const CallId& id) {
  return absl::StrCat("call ", id.sequence, " of client ",
                      absl::BytesToHexString(id.client_id));
}

absl::Status CheckId(const CallId& id) {
  if (id.client_id.empty() || id.client_id.size() > kMaxClientIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("call_id: expected a client_id of 1 to ",
                     kMaxClientIdBytes, " bytes, got ", id.client_id.size()));
  }
  if (id.sequence > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "call_id: expected a sequence of at least 1, got 0");
}

}  // namespace

void CallWindow::Attempt::Keep(const CallAnswer& answer) {
  window_->Keep(*call_, answer);
}

void CallWindow::Attempt::End() {
  if (window_ == nullptr) return;
  const std::shared_ptr<CallWindow> window = std::move(window_);
  const CallPtr call = std::move(call_);
  window->EndAttempt(call);
}

std::shared_ptr<CallWindow> CallWindow::Create(const CallWindowOptions& options,
                                               Alarms* alarms,
                                               RefPtr<BudgetAccount> account) {
  return std::shared_ptr<CallWindow>(
      new CallWindow(options, alarms, std::move(account)));
}

CallWindow::CallWindow(const CallWindowOptions& options, Alarms* alarms,
                       RefPtr<BudgetAccount> account)
    : options_(options), alarms_(*alarms), account_(std::move(account)) {}

void CallWindow::Enter(const CallIdentity& identity, const CallContext& context,
                       AttemptCallback on_attempt) {
  const uint64_t ticket =
      context.cancellation ? context.cancellation->TakeTicket() : 0;
  WaiterPtr waiter;
  // Nothing if it waits.
  const auto enter = [&]() -> absl::StatusOr<std::optional<Attempt>> {
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckMayCall(context.caller, identity.id));
    ASSIGN_OR_RETURN(const CallPtr call, FindOrAdd(context.caller, identity));
    if (call->is_under_way) {
      ASSIGN_OR_RETURN(waiter, Park(call, identity.request_bytes,
                                    context.timeout, on_attempt));
      return std::nullopt;
    }
    if (call->answer != nullptr) Unlist(*call->client);
    call->is_under_way = true;
    return Attempt(shared_from_this(), call, call->answer);
  };
  absl::StatusOr<std::optional<Attempt>> attempt = enter();
  if (!attempt.ok()) return std::move(on_attempt)(attempt.status());
  if (*attempt) return std::move(on_attempt)(**std::move(attempt));
  if (context.cancellation == nullptr) return;
  context.cancellation->OnCancel(
      ticket, [waiter, weak_this = weak_from_this()] {
        if (const auto self = weak_this.lock()) {
          self->EndWait(waiter, absl::StatusCode::kCancelled);
        }
      });
}

absl::Status CallWindow::CheckMayCall(const Caller& caller,
                                      const CallId& id) const {
  if (caller.unless_remembered.ok()) return absl::OkStatus();
  const auto found = clients_.find(ClientKey(caller.name, id.client_id));
  if (found == clients_.end()) return caller.unless_remembered;
  const Client& client = *found->second;
  return client.Has(id.sequence) && client.call->answer != nullptr
             ? absl::OkStatus()
             : caller.unless_remembered;
}

absl::StatusOr<CallWindow::CallPtr> CallWindow::FindOrAdd(
    const Caller& caller, const CallIdentity& identity) {
  RETURN_IF_ERROR(CheckId(identity.id));
  Trim();
  ASSIGN_OR_RETURN(Client* const client,
                   FindOrAddClient({caller.name, identity.id.client_id}));
  if (client->Has(identity.id.sequence)) {
    if (client->call->fingerprint == identity.fingerprint) return client->call;
    return WithReason(absl::InvalidArgumentError(absl::StrCat(
                          NameOf(identity.id),
                          ": expected the request that it was made with, got "
                          "another one by the same call_id")),
                      Reason::kCallIdReused);
  }
  RETURN_IF_ERROR(CheckRemembered(*client, identity.id.sequence));
  absl::StatusOr<CallPtr> call = Add(*client, identity);
  if (!call.ok()) ForgetIfUnused(*client);
  return call;
}

absl::StatusOr<CallWindow::Client*> CallWindow::FindOrAddClient(
    const ClientKey& key) {
  const auto known = clients_.find(key);
  if (known != clients_.end()) {
    MarkUsed(*known->second);
    return known->second.get();
  }
  if (clients_.size() >= options_.max_clients) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "clients whose calls are remembered: expected at most ",
            options_.max_clients, ", got one more; each is forgotten after ",
            absl::FormatDuration(options_.max_age), " without a call")),
        Reason::kLimitReached, {{"limit", options_.max_clients}});
  }
  ASSIGN_OR_RETURN(
      Reservation reservation,
      Reservation::Create(account_, kClientOverheadBytes + key.first.size() +
                                        key.second.size()));
  auto client = std::make_unique<Client>();
  client->key = key;
  client->last_used = alarms_.Now();
  client->use = by_use_.insert(by_use_.end(), client.get());
  client->reservation = std::move(reservation);
  return (clients_[key] = std::move(client)).get();
}

absl::StatusOr<CallWindow::CallPtr> CallWindow::Add(
    Client& client, const CallIdentity& identity) {
  // Its memory may be what this one needs.
  Drop(client);
  auto call = std::make_shared<Call>();
  ASSIGN_OR_RETURN(
      call->reservation,
      Reservation::Create(account_, SumOfBytes(kCallOverheadBytes,
                                               std::max(identity.answer_bytes,
                                                        kMaxErrorBytes))));
  call->client = &client;
  call->id = identity.id;
  call->fingerprint = identity.fingerprint;
  call->is_push = identity.is_push;
  call->former_sequence =
      std::exchange(client.last_sequence, identity.id.sequence);
  client.call = call;
  return call;
}

absl::Status CallWindow::CheckRemembered(const Client& client,
                                         uint64_t sequence) {
  if (sequence > client.last_sequence) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          NameOf({client.key.second, sequence}), ": expected a sequence above ",
          client.last_sequence,
          ": what came before is remembered no more, so that nobody can tell "
          "whether this call has been made")),
      Reason::kOutcomeUnknown);
}

absl::StatusOr<CallWindow::WaiterPtr> CallWindow::Park(
    const CallPtr& call, uint64_t request_bytes, absl::Duration timeout,
    AttemptCallback& on_attempt) {
  RETURN_IF_ERROR(no_waits_);
  const auto others = waiters_.find(call.get());
  if (others != waiters_.end() && others->second.size() >= kMaxWaiters) {
    return absl::UnavailableError(
        absl::StrCat(NameOf(call->id), ": ", kMaxWaiters,
                     " repeats of it wait for their first attempt"));
  }
  ASSIGN_OR_RETURN(
      Reservation reservation,
      Reservation::Create(account_,
                          SumOfBytes(kWaiterOverheadBytes, request_bytes)));
  auto waiter = std::make_shared<Waiter>();
  waiter->reservation = std::move(reservation);
  waiter->call = call;
  waiter->on_attempt = std::move(on_attempt);
  waiter->started = alarms_.Now();
  waiter->alarm = alarms_.Schedule(
      waiter->started + std::min(timeout, options_.max_wait),
      [waiter, weak_this = weak_from_this()] {
        if (const auto self = weak_this.lock()) {
          self->EndWait(waiter, absl::StatusCode::kDeadlineExceeded);
        }
      });
  waiters_[call.get()].push_back(waiter);
  ++waits_.calls_waiting;
  return waiter;
}

CallWindow::AttemptCallback CallWindow::TakeCallback(Waiter& waiter) {
  waiter.reservation.Clear();
  waiter.call = nullptr;  // what listens to the caller may keep the waiter
  --waits_.calls_waiting;
  ++waits_.calls_ended;
  waits_.waited += alarms_.Now() - waiter.started;
  return std::exchange(waiter.on_attempt, nullptr);
}

void CallWindow::EndWait(const WaiterPtr& waiter, absl::StatusCode code) {
  AttemptCallback on_attempt;
  std::string name;
  {
    MutexLock lock(&mutex_);
    if (!waiter->on_attempt) return;
    name = NameOf(waiter->call->id);
    const auto found = waiters_.find(waiter->call.get());
    std::erase(found->second, waiter);
    if (found->second.empty()) waiters_.erase(found);
    on_attempt = TakeCallback(*waiter);
  }
  alarms_.Cancel(waiter->alarm);
  const absl::Duration waited = alarms_.Now() - waiter->started;
  std::move(on_attempt)(absl::Status(
      code,
      absl::StrCat(
          "waited ",
          absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))),
          ": an earlier attempt of ", name, " is still under way")));
}

absl::StatusOr<bool> CallWindow::Knows(const Caller& caller,
                                       const CallId& id) const {
  RETURN_IF_ERROR(CheckId(id));
  MutexLock lock(&mutex_);
  const auto found = clients_.find(ClientKey(caller.name, id.client_id));
  if (found == clients_.end()) return false;
  if (found->second->Has(id.sequence)) return true;
  RETURN_IF_ERROR(CheckRemembered(*found->second, id.sequence));
  return false;
}

void CallWindow::Keep(Call& call, const CallAnswer& answer) {
  // Only a call's present attempt touches its reservation.
  uint64_t headroom = call.reservation.bytes() - kCallOverheadBytes;
  const uint64_t bytes = SizeOf(answer);
  if (bytes > headroom) {
    if (auto more = Reservation::Create(account_, bytes - headroom);
        more.ok()) {
      call.reservation.Merge(*std::move(more));
      headroom = bytes;
    }
  }
  auto kept = std::make_shared<const CallAnswer>(Limited(answer, headroom));
  MutexLock lock(&mutex_);
  call.answer.swap(kept);
}

void CallWindow::EndAttempt(const CallPtr& call) {
  WaiterPtr next;
  AttemptCallback on_attempt;
  // Nothing if nobody waits.
  const auto end = [&]() -> std::optional<Attempt> {
    MutexLock lock(&mutex_);
    const auto found = waiters_.find(call.get());
    if (found == waiters_.end()) {
      call->is_under_way = false;
      if (call->client != nullptr) Retire(*call);
      return std::nullopt;
    }
    next = std::move(found->second.front());
    found->second.pop_front();
    if (found->second.empty()) waiters_.erase(found);
    on_attempt = TakeCallback(*next);
    return Attempt(shared_from_this(), call, call->answer);
  };
  std::optional<Attempt> attempt = end();
  if (!attempt) return;
  alarms_.Cancel(next->alarm);
  std::move(on_attempt)(*std::move(attempt));
}

void CallWindow::Retire(Call& call) {
  Client& client = *call.client;
  if (call.answer == nullptr) {
    client.last_sequence = call.former_sequence;
    call.client = nullptr;
    client.call = nullptr;  // the last attempt has it
    return ForgetIfUnused(client);
  }
  const uint64_t used = kCallOverheadBytes + SizeOf(*call.answer);
  const uint64_t reserved = call.reservation.bytes();
  const Reservation excess =
      call.reservation.Split(reserved - std::min(used, reserved));
  ended_bytes_ += call.reservation.bytes();
  client.end = ended_.insert(ended_.end(), &client);
  MarkUsed(client);
  Trim();
}

void CallWindow::MarkUsed(Client& client) {
  client.last_used = alarms_.Now();
  by_use_.splice(by_use_.end(), by_use_, client.use);
}

void CallWindow::Trim() {
  const absl::Duration oldest = alarms_.Now() - options_.max_age;
  while (!by_use_.empty() && by_use_.front()->last_used <= oldest) {
    Client& client = *by_use_.front();
    if (client.call != nullptr && client.call->is_under_way) break;
    Drop(client);
    by_use_.pop_front();
    clients_.erase(ClientKey(client.key));
  }
  while (ended_bytes_ > options_.max_bytes && ended_.size() > 1) {
    Drop(*ended_.front());
  }
}

void CallWindow::ForgetIfUnused(Client& client) {
  if (client.call != nullptr || client.last_sequence > 0) return;
  by_use_.erase(client.use);
  clients_.erase(ClientKey(client.key));
}

void CallWindow::Drop(Client& client) {
  if (client.call == nullptr) return;
  if (!client.call->is_under_way) Unlist(client);
  client.call->client = nullptr;
  client.call = nullptr;
}

void CallWindow::Unlist(Client& client) {
  ended_.erase(client.end);
  ended_bytes_ -= client.call->reservation.bytes();
}

void CallWindow::EndWaits(const absl::Status& status) {
  decltype(waiters_) waiters;
  std::vector<AttemptCallback> callbacks;
  {
    MutexLock lock(&mutex_);
    no_waits_ = status;
    waiters.swap(waiters_);
    for (const auto& [call, of_call] : waiters) {
      for (const WaiterPtr& waiter : of_call) {
        callbacks.push_back(TakeCallback(*waiter));
      }
    }
  }
  for (const auto& [call, of_call] : waiters) {
    for (const WaiterPtr& waiter : of_call) alarms_.Cancel(waiter->alarm);
  }
  for (AttemptCallback& callback : callbacks) std::move(callback)(status);
}

// A client that comes meanwhile may be passed over: it was not there
// throughout.
std::vector<CallSnapshot> CallWindow::Save(
    absl::FunctionRef<void(absl::Duration)> paused) const {
  std::vector<CallSnapshot> calls;
  ClientKey last;  // comes before any
  bool has_more = true;
  while (has_more) {
    std::vector<CallSnapshot> some;
    some.reserve(kClientsPerLock);
    absl::Duration pause;
    {
      MutexLock lock(&mutex_);
      const absl::Duration start = alarms_.Now();
      auto next = clients_.upper_bound(last);
      for (size_t i = 0; i < kClientsPerLock && next != clients_.end();
           ++i, ++next) {
        const Client& client = *next->second;
        last = next->first;
        if (client.last_sequence == 0) continue;
        CallSnapshot& saved = some.emplace_back();
        saved.caller = client.key.first;
        saved.id = {client.key.second, client.last_sequence};
        if (client.call == nullptr) continue;
        saved.fingerprint = client.call->fingerprint;
        saved.answer = client.call->answer;
        saved.is_push = client.call->is_push;
      }
      has_more = next != clients_.end();
      pause = alarms_.Now() - start;
    }
    paused(pause);
    std::move(some.begin(), some.end(), std::back_inserter(calls));
  }
  return calls;
}

void CallWindow::Restore(const std::vector<CallSnapshot>& calls) {
  MutexLock lock(&mutex_);
  for (const CallSnapshot& each : calls) RestoreCall(each);
}

void CallWindow::RestoreCall(const CallSnapshot& saved) {
  const absl::StatusOr<Client*> client =
      FindOrAddClient({saved.caller, saved.id.client_id});
  if (!client.ok()) return;
  if (saved.answer == nullptr) {
    (*client)->last_sequence = saved.id.sequence;
    return;
  }
  const absl::StatusOr<CallPtr> call =
      Add(**client, {saved.id, saved.fingerprint, SizeOf(*saved.answer)});
  if (!call.ok()) return ForgetIfUnused(**client);
  (*call)->answer = saved.answer;
  Retire(**call);
}

WaitStatus CallWindow::waits() const {
  MutexLock lock(&mutex_);
  return waits_;
}

}  // namespace tensorkv
