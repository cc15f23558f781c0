#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/names.h"
#include "service/store/namespace.h"

namespace tensorkv {
namespace {

// Unlocked: brings device tensors to the host.
absl::Status MoveToHost(Backend& backend, PullReply& reply) {
  for (Value& value : reply.values) {
    ASSIGN_OR_RETURN(value.tensor, backend.ToHost(value.tensor));
  }
  return absl::OkStatus();
}

}  // namespace

void Namespace::Pull(PullRequest request, CallContext context,
                     ReplyCallback<PullReply> done) {
  if (absl::Status status = CheckPull(request); !status.ok()) {
    std::move(done)(std::move(status));
    return;
  }
  const auto call = std::make_shared<PullCall>();
  call->request = std::move(request);
  call->context = std::move(context);
  call->done = std::move(done);
  call->started = environment_.alarms->Now();
  // A copy: once parked, the call belongs to whoever answers it.
  const std::shared_ptr<Cancellation> cancellation = call->context.cancellation;

  Replies replies;
  {
    MutexLock lock(&mutex_);
    if (auto answer = Attempt(*call)) {
      Finish(*call, replies);
      replies.pulls.emplace_back(call, *std::move(answer));
    } else {
      Park(call);
    }
  }
  if (replies.pulls.empty() && cancellation != nullptr) {
    cancellation->OnCancel([call, weak_this = weak_from_this()] {
      if (const auto self = weak_this.lock()) {
        self->EndWait(call, absl::StatusCode::kCancelled);
      }
    });
  }
  Send(std::move(replies));
}

absl::Status Namespace::CheckPull(const PullRequest& request) const {
  RETURN_IF_ERROR(CheckNumEntries(request.entries.size()));
  for (const PullEntry& entry : request.entries) {
    RETURN_IF_ERROR(CheckKey(entry.key));
  }
  return mode_->CheckPull(request);
}

bool Namespace::IsReadable(const StoredKey& key, const PullCall& call,
                           const PullEntry& entry) const {
  return key.version >= entry.min_version && !key.value_is_changing &&
         !mode_->MustWait(key, call.request.worker);
}

absl::StatusOr<bool> Namespace::ReadFrom(size_t begin, PullCall& call,
                                         PullReply* reply) const {
  const std::vector<PullEntry>& entries = call.request.entries;
  for (size_t i = begin; i < entries.size(); ++i) {
    const StoredKey* key = keys_.Find(entries[i].key);
    if (key != nullptr && IsReadable(*key, call, entries[i])) {
      if (reply != nullptr) {
        reply->values.push_back({key->version, key->ToTensor()});
      }
      continue;
    }
    call.position = i;
    if (key == nullptr && !call.request.wait) return NoSuchKey(entries[i].key);
    if (!no_waits_.ok()) return no_waits_;
    // A wait that cannot end well does not begin.
    if (!call.request.wait) RETURN_IF_ERROR(CheckAllExist(call.request));
    return false;
  }
  return true;
}

absl::Status Namespace::CheckAllExist(const PullRequest& request) const {
  for (const PullEntry& entry : request.entries) {
    if (keys_.Find(entry.key) == nullptr) return NoSuchKey(entry.key);
  }
  return absl::OkStatus();
}

std::optional<absl::StatusOr<PullReply>> Namespace::Attempt(PullCall& call) {
  if (absl::Status failure = TakeFailure(call.request.worker); !failure.ok()) {
    return failure;
  }
  // Entries before call.position were ready once; the others first, then all
  // again, so that the answer is of one moment.
  absl::StatusOr<bool> is_ready = true;
  if (call.position > 0) is_ready = ReadFrom(call.position, call, nullptr);
  PullReply reply;
  if (is_ready.ok() && *is_ready) {
    reply.values.reserve(call.request.entries.size());
    is_ready = ReadFrom(0, call, &reply);
  }
  if (!is_ready.ok()) return is_ready.status();
  if (!*is_ready) return std::nullopt;
  return reply;
}

void Namespace::Park(const std::shared_ptr<PullCall>& call) {
  const std::string& name = call->request.entries[call->position].key;
  waits_.Park(name, call);
  const StoredKey* key = keys_.Find(name);
  if (key != nullptr && key->value_is_changing) Pin(*call);
  if (call->alarm != 0) return;
  const absl::Duration timeout =
      std::min(call->context.timeout, environment_.max_wait);
  call->alarm = environment_.alarms->Schedule(
      call->started + timeout, [call, weak_this = weak_from_this()] {
        if (const auto self = weak_this.lock()) {
          self->EndWait(call, absl::StatusCode::kDeadlineExceeded);
        }
      });
}

void Namespace::Pin(PullCall& call) {
  if (!call.pinned.empty()) return;
  for (const PullEntry& entry : call.request.entries) {
    StoredKey* key = keys_.Find(entry.key);
    if (key == nullptr) continue;
    ++key->num_pulls_pinning;
    call.pinned.emplace_back(key);
  }
}

void Namespace::Finish(PullCall& call, Replies& replies) {
  call.is_finished = true;
  for (KeyPtr& key : call.pinned) {
    --key->num_pulls_pinning;
    replies.released_keys.push_back(std::move(key));
  }
  call.pinned.clear();
}

void Namespace::Wake(absl::string_view key, Replies& replies) {
  for (std::shared_ptr<PullCall>& call : waits_.Take(key)) {
    if (auto answer = Attempt(*call)) {
      Finish(*call, replies);
      replies.pulls.emplace_back(std::move(call), *std::move(answer));
    } else {
      Park(call);
    }
  }
}

void Namespace::EndWait(const std::shared_ptr<PullCall>& call,
                        absl::StatusCode code) {
  Replies replies;
  {
    MutexLock lock(&mutex_);
    if (call->is_finished) return;
    Finish(*call, replies);
    waits_.Remove(call->request.entries[call->position].key, call);
    const absl::Duration waited = environment_.alarms->Now() - call->started;
    replies.pulls.emplace_back(
        call,
        absl::Status(code, absl::StrCat("waited ",
                                        absl::FormatDuration(absl::Trunc(
                                            waited, absl::Milliseconds(1))),
                                        ": ", DescribeWait(*call))));
  }
  Send(std::move(replies));
}

std::string Namespace::DescribeWait(const PullCall& call) const {
  const PullEntry& entry = call.request.entries[call.position];
  const StoredKey* key = keys_.Find(entry.key);
  if (key == nullptr) {
    return absl::StrCat("key ", Quoted(entry.key), " does not exist yet");
  }
  if (mode_->MustWait(*key, call.request.worker)) {
    return mode_->DescribeWait(*key, call.request.worker);
  }
  if (key->version < entry.min_version) {
    return absl::StrCat("key ", Quoted(entry.key), ": expected version ",
                        entry.min_version, ", got ", key->version);
  }
  return absl::StrCat("key ", Quoted(entry.key), ": its update is under way");
}

void Namespace::EndWaits(const absl::Status& status) {
  Replies replies;
  {
    MutexLock lock(&mutex_);
    no_waits_ = status;
    for (std::shared_ptr<PullCall>& call : waits_.TakeAll()) {
      Finish(*call, replies);
      replies.pulls.emplace_back(std::move(call), status);
    }
  }
  Send(std::move(replies));
  calls_->EndWaits(status);
}

void Namespace::Send(Replies replies) {
  for (const RefPtr<PushCall>& call : replies.pushes) {
    if (call->status.ok()) {
      std::move(call->done)(std::move(call->reply));
    } else {
      std::move(call->done)(call->status);
    }
  }
  for (auto& [call, answer] : replies.pulls) {
    if (call->alarm != 0) environment_.alarms->Cancel(call->alarm);
    call->context.cancellation.reset();
    if (answer.ok() && !is_on_host_) {
      const absl::Status status = MoveToHost(*environment_.backend, *answer);
      if (!status.ok()) answer = status;
    }
    std::move(call->done)(std::move(answer));
  }
}

}  // namespace tensorkv
