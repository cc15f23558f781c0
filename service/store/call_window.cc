#include "service/store/call_window.h"

#include <algorithm>
#include <iterator>
#include <optional>

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

// Says how many calls Save copies at a time: about 0.1 ms.
constexpr size_t kCallsPerLock = 512;

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

// Returns `answer`, its message cut off where the whole exceeds `max_bytes`.
// The reason stays: programs go by it.
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
  window->EndAttempt(*call_);
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
      call != client->second->calls.end() && call->second.answer &&
      ReasonOf(call->second.answer->status()) != Reason::kOutcomeUnknown;
  return is_remembered ? absl::OkStatus() : caller.unless_remembered;
}

absl::StatusOr<CallWindow::Call*> CallWindow::FindOrAdd(
    const Caller& caller, const CallIdentity& identity, Dropped& dropped) {
  RETURN_IF_ERROR(CheckId(identity.id));
  Trim(dropped);
  DropOldClients();
  ASSIGN_OR_RETURN(
      Client * client,
      FindOrAddClient({caller.name, identity.id.client_id}, dropped));
  const uint64_t sequence = identity.id.sequence;
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
  RETURN_IF_ERROR(CheckRemembered(*client, sequence));
  const uint64_t bytes = SumOfBytes(
      kCallOverheadBytes, std::max(identity.answer_bytes, kMaxErrorBytes));
  // A caller that makes a call has had the answer to the one before, not to a
  // later one.
  Call* const latest = client->latest;
  const bool is_newer = latest != nullptr && sequence > latest->sequence;
  absl::StatusOr<Reservation> reservation =
      Reserve(bytes, is_newer ? latest : nullptr, dropped);
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
    const ClientKey& key, Dropped& dropped) {
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
      Reserve(kClientOverheadBytes + key.first.size() + key.second.size(),
              nullptr, dropped));
  auto client = std::make_unique<Client>();
  client->key = key;
  client->last_used = alarms_.Now();
  client->use = by_use_.insert(by_use_.end(), client.get());
  client->reservation = std::move(reservation);
  return (clients_[key] = std::move(client)).get();
}

absl::StatusOr<Reservation> CallWindow::Reserve(uint64_t bytes, Call* done_with,
                                                Dropped& dropped) {
  for (;;) {
    absl::StatusOr<Reservation> reservation =
        Reservation::Create(account_, bytes);
    if (reservation.ok()) return reservation;
    // Answers that are dropped for a call that is refused nevertheless are lost
    // in vain.
    const uint64_t droppable =
        superseded_bytes_ +
        (done_with == nullptr ? 0 : done_with->reservation.bytes());
    if (bytes > SumOfBytes(account_->available_bytes(), droppable)) {
      return reservation;
    }
    Call* const call = superseded_.empty() ? std::exchange(done_with, nullptr)
                                           : superseded_.begin()->second;
    if (call == nullptr) return reservation;
    Drop(*call, dropped);
    dropped.clear();  // gives back what it had reserved
  }
}

absl::Status CallWindow::CheckRemembered(const Client& client,
                                         uint64_t sequence) {
  if (sequence > client.forgotten) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(absl::StrCat(
          NameOf(client.key.second, sequence), ": expected a sequence above ",
          client.forgotten,
          ": what came before is remembered no more, so that nobody can tell "
          "whether this call has been made")),
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
  if (client->second->calls.contains(id.sequence)) return true;
  RETURN_IF_ERROR(CheckRemembered(*client->second, id.sequence));
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

void CallWindow::EndAttempt(Call& call) {
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
  if (!attempt) return;
  alarms_.Cancel(next->alarm);
  std::move(on_attempt)(*std::move(attempt));
}

void CallWindow::Retire(Call& call, Dropped& dropped) {
  if (call.answer == nullptr) {
    Client& client = *call.client;
    dropped.push_back(client.calls.extract(call.sequence));
    return ForgetIfUnused(client);
  }
  const uint64_t used = kCallOverheadBytes + SizeOf(*call.answer);
  const uint64_t reserved = call.reservation.bytes();
  const Reservation excess =
      call.reservation.Split(reserved - std::min(used, reserved));
  Client& client = *call.client;
  call.ended = alarms_.Now();
  if (client.latest != nullptr && client.latest->sequence > call.sequence) {
    // A late repeat of an older call: the newer answer may yet be asked for.
    AddSuperseded(call);
  } else {
    if (Call* const before = client.latest) {
      latest_.erase(before->age);
      AddSuperseded(*before);
    }
    client.latest = &call;
    call.age = latest_.emplace_hint(latest_.end(), call.ended, &call);
  }
  ended_bytes_ += call.reservation.bytes();
  ++client.num_ended;
  client.last_used = call.ended;
  by_use_.splice(by_use_.end(), by_use_, client.use);
  TrimClient(client, dropped);
  Trim(dropped);
}

void CallWindow::AddSuperseded(Call& call) {
  call.age = superseded_.emplace(call.ended, &call);
  superseded_bytes_ += call.reservation.bytes();
}

CallWindow::Call* CallWindow::LeastUseful() const {
  if (!superseded_.empty()) return superseded_.begin()->second;
  return latest_.empty() ? nullptr : latest_.begin()->second;
}

void CallWindow::TrimClient(Client& client, Dropped& dropped) {
  auto call = client.calls.begin();
  while (client.num_ended > options_.max_calls_per_client) {
    Call& lowest = call->second;
    ++call;
    if (!lowest.is_under_way) Drop(lowest, dropped);
  }
}

void CallWindow::Trim(Dropped& dropped) {
  const absl::Duration oldest = alarms_.Now() - options_.max_age;
  for (ByEnd* const calls : {&superseded_, &latest_}) {
    while (!calls->empty() && calls->begin()->first <= oldest) {
      Drop(*calls->begin()->second, dropped);
    }
  }
  while (ended_bytes_ > options_.max_bytes &&
         superseded_.size() + latest_.size() > 1) {
    Drop(*LeastUseful(), dropped);
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
  if (!client.calls.empty() || client.forgotten > 0) return;
  by_use_.erase(client.use);
  clients_.erase(ClientKey(client.key));
}

void CallWindow::Drop(Call& call, Dropped& dropped) {
  Unlist(call);
  Client& client = *call.client;
  client.forgotten = std::max(client.forgotten, call.sequence);
  dropped.push_back(client.calls.extract(call.sequence));
}

void CallWindow::Unlist(Call& call) {
  Client& client = *call.client;
  const bool is_latest = client.latest == &call;
  (is_latest ? latest_ : superseded_).erase(call.age);
  if (is_latest) {
    client.latest = nullptr;
  } else {
    superseded_bytes_ -= call.reservation.bytes();
  }
  ended_bytes_ -= call.reservation.bytes();
  --client.num_ended;
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

// A client that comes meanwhile may be passed over: it was not there
// throughout.
std::vector<CallSnapshot> CallWindow::Save(
    absl::FunctionRef<void(absl::Duration)> paused) const {
  const auto save = [](const Client& client, std::vector<CallSnapshot>& calls) {
    const auto& [caller, client_id] = client.key;
    for (const auto& [sequence, call] : client.calls) {
      calls.push_back({caller,
                       {client_id, sequence},
                       call.fingerprint,
                       call.answer,
                       client.forgotten,
                       call.is_push});
    }
    if (client.forgotten == 0) return;
    calls.push_back({.caller = caller,
                     .id = {client_id, client.forgotten},
                     .forgotten = client.forgotten});
  };
  std::vector<CallSnapshot> calls;
  ClientKey last;  // comes before any
  bool has_more = true;
  while (has_more) {
    std::vector<CallSnapshot> some;
    some.reserve(kCallsPerLock + options_.max_calls_per_client);
    absl::Duration pause;
    {
      MutexLock lock(&mutex_);
      const absl::Duration start = alarms_.Now();
      auto next = clients_.upper_bound(last);
      for (size_t i = 0; i < kCallsPerLock && next != clients_.end() &&
                         some.size() < kCallsPerLock;
           ++i, ++next) {
        save(*next->second, some);
        last = next->first;
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
  for (const CallSnapshot& each : calls) {
    if (!each.is_forgotten()) RestoreCall(each);
  }
  // Only now: what is remembered may come before what was forgotten.
  for (const CallSnapshot& each : calls) {
    if (each.forgotten > 0) RestoreForgotten(each);
  }
}

void CallWindow::RestoreCall(const CallSnapshot& saved) {
  Dropped dropped;  // goes after the lock
  MutexLock lock(&mutex_);
  const absl::StatusOr<Call*> call =
      FindOrAdd({saved.caller},
                {saved.id, saved.fingerprint, SizeOf(*saved.answer)}, dropped);
  if (!call.ok()) return;
  (*call)->answer = saved.answer;
  Retire(**call, dropped);
}

void CallWindow::RestoreForgotten(const CallSnapshot& saved) {
  Dropped dropped;  // goes after the lock
  MutexLock lock(&mutex_);
  const absl::StatusOr<Client*> client =
      FindOrAddClient({saved.caller, saved.id.client_id}, dropped);
  if (!client.ok()) return;
  (*client)->forgotten = std::max((*client)->forgotten, saved.forgotten);
}

WaitStatus CallWindow::waits() const {
  MutexLock lock(&mutex_);
  return waits_;
}

}  // namespace tensorkv
