#include "service/store/call_window.h"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"

namespace tensorkv {
namespace {

constexpr size_t kMaxClientIdBytes = 64;

// Counts what a client takes besides its names: tree and list nodes, control
// blocks.
constexpr uint64_t kClientOverheadBytes = 512;

// Counts what an attempt that waits takes besides its request.
constexpr uint64_t kWaiterOverheadBytes = 2048;

// Says how many bytes the message of an error and its reason may take; longer
// messages are kept cut off.
constexpr uint64_t kMaxErrorBytes = 768;

// Bounds the attempts of one call that may wait. Each begins when the one
// before ends, on that one's stack.
constexpr size_t kMaxWaiters = 16;

std::string NameOf(const std::string& client_id, uint64_t sequence) {
  return absl::StrCat("call ", sequence, " of client ",
                      absl::BytesToHexString(client_id));
}

absl::Status CheckId(const CallId& id) {
  if (id.client_id.empty() || id.client_id.size() > kMaxClientIdBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("call_id: expected a client_id of 1 to ",
                     kMaxClientIdBytes, " bytes, got ", id.client_id.size()));
  }
  if (id.sequence == 0) {
    return absl::InvalidArgumentError(
        "call_id: expected a sequence of at least 1, got 0");
  }
  if (id.answered_below == 0 || id.answered_below > id.sequence) {
    return absl::InvalidArgumentError(absl::StrCat(
        "call_id: expected an answered_below of 1 to ", id.sequence,
        ", which is the sequence, got ", id.answered_below));
  }
  if (id.sequence - id.answered_below < kMaxCallsUnderWay) {
    return absl::OkStatus();
  }
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          NameOf(id.client_id, id.sequence),
          ": expected a sequence of at most ", kMaxCallsUnderWay - 1,
          " above answered_below, which is ", id.answered_below)),
      Reason::kLimitReached, {{"limit", kMaxCallsUnderWay}});
}

}  // namespace

void CallWindow::Attempt::Keep(const CallAnswer& answer) {
  window_->Keep(*call_, answer);
}

void CallWindow::Attempt::End(absl::FunctionRef<void()> answer) {
  if (window_ == nullptr) return;
  // The answer may destroy this.
  const std::shared_ptr<CallWindow> window = std::move(window_);
  window->EndAttempt(*call_, answer);
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
  std::shared_ptr<Waiter> waiter;
  // Nothing if it waits.
  const auto enter = [&]() -> absl::StatusOr<std::optional<Attempt>> {
    Dropped dropped;  // goes after the lock
    MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckMayCall(context.caller, identity.id));
    ASSIGN_OR_RETURN(Call * call, FindOrAdd(context.caller, identity, dropped));
    if (!call->is_under_way) return BeginAttempt(*call);
    ASSIGN_OR_RETURN(waiter, Park(*call, identity.request_bytes,
                                  context.timeout, on_attempt));
    return std::nullopt;
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
  const auto client = clients_.find(ClientKey(caller.name, id.client_id));
  if (client == clients_.end()) return caller.unless_remembered;
  const auto call = client->second->calls.find(id.sequence);
  const bool is_remembered =
      call != client->second->calls.end() && call->second.answer;
  return is_remembered ? absl::OkStatus() : caller.unless_remembered;
}

absl::StatusOr<CallWindow::Call*> CallWindow::FindOrAdd(
    const Caller& caller, const CallIdentity& identity, Dropped& dropped) {
  RETURN_IF_ERROR(CheckId(identity.id));
  Trim(dropped);
  DropOldClients();
  ASSIGN_OR_RETURN(Client * client,
                   FindOrAddClient({caller.name, identity.id.client_id}));
  ForgetAnswered(*client, identity.id.answered_below, dropped);
  const uint64_t sequence = identity.id.sequence;
  RETURN_IF_ERROR(CheckCanTell(*client, sequence));
  const auto known = client->calls.find(sequence);
  if (known != client->calls.end()) {
    if (known->second.fingerprint == identity.fingerprint) {
      return &known->second;
    }
    return WithReason(absl::InvalidArgumentError(absl::StrCat(
                          NameOf(client->key.second, sequence),
                          ": expected the request that it was made with, got "
                          "another one by the same call_id")),
                      Reason::kCallIdReused);
  }
  absl::StatusOr<Reservation> reservation = Reservation::Create(
      account_, SumOfBytes(kCallOverheadBytes,
                           std::max(identity.answer_bytes, kMaxErrorBytes)));
  if (!reservation.ok()) {
    ForgetIfUnused(*client);
    return reservation.status();
  }
  Call& call = client->calls[sequence];
  call.client = client;
  call.sequence = sequence;
  call.fingerprint = identity.fingerprint;
  call.is_push = identity.is_push;
  call.reservation = *std::move(reservation);
  return &call;
}

absl::StatusOr<CallWindow::Client*> CallWindow::FindOrAddClient(
    const ClientKey& key) {
  const auto known = clients_.find(key);
  if (known != clients_.end()) {
    Client* const client = known->second.get();
    client->last_used = alarms_.Now();
    by_use_.splice(by_use_.end(), by_use_, client->use);
    return client;
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

void CallWindow::ForgetAnswered(Client& client, uint64_t answered_below,
                                Dropped& dropped) {
  if (answered_below <= client.answered_below) return;
  const uint64_t num_forgotten =
      std::min(answered_below - client.answered_below, kMaxCallsUnderWay);
  for (uint64_t i = 0; i < num_forgotten; ++i) {
    client.marks.reset((client.answered_below + i) % kMaxCallsUnderWay);
  }
  client.answered_below = answered_below;
  auto next = client.calls.begin();
  while (next != client.calls.end() && next->first < answered_below) {
    Call& call = next->second;
    ++next;
    // One that is under way goes when it has ended.
    if (!call.is_under_way) Remove(call, dropped);
  }
}

absl::Status CallWindow::CheckCanTell(const Client& client, uint64_t sequence) {
  if (sequence < client.answered_below) {
    return WithReason(
        absl::FailedPreconditionError(absl::StrCat(
            NameOf(client.key.second, sequence),
            ": expected a sequence of at least ", client.answered_below,
            ", the answered_below of a later call: what comes before is "
            "forgotten, so that nobody can tell whether this call has been "
            "made")),
        Reason::kOutcomeUnknown);
  }
  // A call further above shares its mark with one that the answered_below of
  // its own id lets us forget.
  if (sequence - client.answered_below >= kMaxCallsUnderWay ||
      !client.marks[sequence % kMaxCallsUnderWay]) {
    return absl::OkStatus();
  }
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          NameOf(client.key.second, sequence),
          ": its answer is remembered no more, so that nobody can tell whether "
          "it has been made")),
      Reason::kOutcomeUnknown);
}

CallWindow::Attempt CallWindow::BeginAttempt(Call& call) {
  if (call.answer != nullptr) Unlist(call);
  call.is_under_way = true;
  return Attempt(shared_from_this(), &call, call.answer);
}

absl::StatusOr<std::shared_ptr<CallWindow::Waiter>> CallWindow::Park(
    Call& call, uint64_t request_bytes, absl::Duration timeout,
    AttemptCallback& on_attempt) {
  RETURN_IF_ERROR(no_waits_);
  if (call.waiters.size() >= kMaxWaiters) {
    return absl::UnavailableError(absl::StrCat(
        NameOf(call.client->key.second, call.sequence), ": ", kMaxWaiters,
        " repeats of it wait for their first attempt"));
  }
  ASSIGN_OR_RETURN(
      Reservation reservation,
      Reservation::Create(account_,
                          SumOfBytes(kWaiterOverheadBytes, request_bytes)));
  auto waiter = std::make_shared<Waiter>();
  waiter->reservation = std::move(reservation);
  waiter->call = &call;
  waiter->on_attempt = std::move(on_attempt);
  waiter->started = alarms_.Now();
  waiter->alarm = alarms_.Schedule(
      waiter->started + std::min(timeout, options_.max_wait),
      [waiter, weak_this = weak_from_this()] {
        if (const auto self = weak_this.lock()) {
          self->EndWait(waiter, absl::StatusCode::kDeadlineExceeded);
        }
      });
  call.waiters.push_back(waiter);
  ++waits_.calls_waiting;
  return waiter;
}

CallWindow::AttemptCallback CallWindow::TakeCallback(Waiter& waiter) {
  waiter.reservation.Clear();
  --waits_.calls_waiting;
  ++waits_.calls_ended;
  waits_.waited += alarms_.Now() - waiter.started;
  return std::exchange(waiter.on_attempt, nullptr);
}

void CallWindow::EndWait(const std::shared_ptr<Waiter>& waiter,
                         absl::StatusCode code) {
  AttemptCallback on_attempt;
  std::string name;
  {
    MutexLock lock(&mutex_);
    if (!waiter->on_attempt) return;
    Call& call = *waiter->call;
    call.waiters.erase(
        std::find(call.waiters.begin(), call.waiters.end(), waiter));
    on_attempt = TakeCallback(*waiter);
    name = NameOf(call.client->key.second, call.sequence);
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
  const auto client = clients_.find(ClientKey(caller.name, id.client_id));
  if (client == clients_.end()) return false;
  RETURN_IF_ERROR(CheckCanTell(*client->second, id.sequence));
  return client->second->calls.contains(id.sequence);
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

void CallWindow::EndAttempt(Call& call, absl::FunctionRef<void()> answer) {
  Dropped dropped;
  std::shared_ptr<Waiter> next;
  AttemptCallback on_attempt;
  // Nothing if nobody waits.
  const auto end = [&]() -> std::optional<Attempt> {
    MutexLock lock(&mutex_);
    if (call.waiters.empty()) {
      call.is_under_way = false;
      Retire(call, dropped);
      return std::nullopt;
    }
    next = std::move(call.waiters.front());
    call.waiters.pop_front();
    on_attempt = TakeCallback(*next);
    return Attempt(shared_from_this(), &call, call.answer);
  };
  std::optional<Attempt> attempt = end();
  answer();
  if (!attempt) return;
  alarms_.Cancel(next->alarm);
  std::move(on_attempt)(*std::move(attempt));
}

void CallWindow::Retire(Call& call, Dropped& dropped) {
  Client& client = *call.client;
  if (call.answer == nullptr) {
    Remove(call, dropped);
    return ForgetIfUnused(client);
  }
  client.has_made_calls = true;
  client.last_used = alarms_.Now();
  by_use_.splice(by_use_.end(), by_use_, client.use);
  if (call.sequence < client.answered_below) return Remove(call, dropped);
  const uint64_t used = kCallOverheadBytes + SizeOf(*call.answer);
  const uint64_t reserved = call.reservation.bytes();
  const Reservation excess =
      call.reservation.Split(reserved - std::min(used, reserved));
  // Repeats make it no younger.
  call.end = std::min(call.end, client.last_used);
  call.age = ended_.emplace_hint(ended_.end(), call.end, &call);
  call.is_listed = true;
  ended_bytes_ += call.reservation.bytes();
  Trim(dropped);
}

void CallWindow::Trim(Dropped& dropped) {
  const absl::Duration oldest = alarms_.Now() - options_.max_age;
  while (!ended_.empty() && ended_.begin()->first <= oldest) {
    DropOldest(dropped);
  }
  while (ended_bytes_ > options_.max_bytes && ended_.size() > 1) {
    DropOldest(dropped);
  }
}

void CallWindow::DropOldClients() {
  const absl::Duration oldest = alarms_.Now() - options_.max_age;
  while (!by_use_.empty() && by_use_.front()->last_used <= oldest &&
         by_use_.front()->calls.empty()) {
    const ClientKey key = by_use_.front()->key;
    by_use_.pop_front();
    clients_.erase(key);
  }
}

void CallWindow::ForgetIfUnused(Client& client) {
  if (!client.calls.empty() || client.has_made_calls) return;
  by_use_.erase(client.use);
  clients_.erase(ClientKey(client.key));
}

void CallWindow::DropOldest(Dropped& dropped) {
  Call& call = *ended_.begin()->second;
  call.client->marks.set(call.sequence % kMaxCallsUnderWay);
  Remove(call, dropped);
}

void CallWindow::Remove(Call& call, Dropped& dropped) {
  if (call.is_listed) Unlist(call);
  call.reservation.Clear();
  dropped.push_back(call.client->calls.extract(call.sequence));
}

void CallWindow::Unlist(Call& call) {
  ended_.erase(call.age);
  call.is_listed = false;
  ended_bytes_ -= call.reservation.bytes();
}

void CallWindow::EndWaits(const absl::Status& status) {
  std::vector<std::shared_ptr<Waiter>> waiters;
  std::vector<AttemptCallback> callbacks;
  {
    MutexLock lock(&mutex_);
    no_waits_ = status;
    for (auto& [id, client] : clients_) {
      for (auto& [sequence, call] : client->calls) {
        for (std::shared_ptr<Waiter>& waiter : call.waiters) {
          callbacks.push_back(TakeCallback(*waiter));
          waiters.push_back(std::move(waiter));
        }
        call.waiters.clear();
      }
    }
  }
  for (size_t i = 0; i < waiters.size(); ++i) {
    alarms_.Cancel(waiters[i]->alarm);
    std::move(callbacks[i])(status);
  }
}

WaitStatus CallWindow::waits() const {
  MutexLock lock(&mutex_);
  return waits_;
}

}  // namespace tensorkv
