#include "service/checkpoint/checkpoints.h"

#include <sys/file.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "contract/proto_codec.h"
#include "contract/timestamp.h"
#include "service/checkpoint/checkpoint_directory.h"
#include "service/checkpoint/checkpoint_writer.h"
#include "service/checkpoint/files.h"
#include "service/checkpoint/saved_checkpoint.h"

namespace tensorkv {
namespace {

// These precede the names of what is being written and removed. They differ: no
// lock keeps a removal from running beside a save.
constexpr absl::string_view kPartialPrefix = ".partial-";
constexpr absl::string_view kRemovedPrefix = ".removed-";

constexpr uint32_t kDefaultPageSize = 100;
constexpr uint32_t kMaxPageSize = 1000;

std::string NumberedName(absl::string_view prefix, uint64_t sequence) {
  return absl::StrFormat("%s-%09d", prefix, sequence);
}

absl::Status NoSuchCheckpoint(const std::string& name) {
  return absl::NotFoundError(
      absl::StrCat("checkpoint \"", name, "\" does not exist"));
}

// Returns whether the caller's request is wrong: a name, or namespaces.
bool IsCallersError(const SaveCheckpointRequest& request,
                    const absl::Status& error) {
  if (!request.name().empty() &&
      (absl::IsAlreadyExists(error) || absl::IsInvalidArgument(error))) {
    return true;
  }
  return !request.namespaces().empty() &&
         (absl::IsNotFound(error) || absl::IsInvalidArgument(error));
}

// Returns the reply that has the checkpoint's status.
template <typename Reply>
absl::StatusOr<Reply> ReplyWith(absl::StatusOr<CheckpointStatus> status) {
  if (!status.ok()) return std::move(status).status();
  Reply reply;
  *reply.mutable_checkpoint() = *std::move(status);
  return reply;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Checkpoints>> Checkpoints::Create(
    CheckpointsOptions options, Snapshots* store) {
  RETURN_IF_ERROR(MakeDirectories(options.directory));
  ASSIGN_OR_RETURN(FileDescriptor lock,
                   LockCheckpoints(options.directory, LOCK_EX));
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListDirectory(options.directory));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, kPartialPrefix) &&
        !absl::StartsWith(name, kRemovedPrefix)) {
      continue;
    }
    RETURN_IF_ERROR(
        RemoveDirectory(absl::StrCat(options.directory, "/", name)));
  }
  return std::unique_ptr<Checkpoints>(
      new Checkpoints(std::move(options), store, std::move(lock)));
}

Checkpoints::~Checkpoints() { Stop(); }

absl::StatusOr<std::optional<CheckpointStatus>> Checkpoints::RestoreLast() {
  std::vector<absl::Status> damages;
  ASSIGN_OR_RETURN(std::vector<CheckpointStatus> all,
                   ListCheckpointsIn(options_.directory, &damages));
  // A checkpoint that cannot be read might be the last one.
  if (!damages.empty() && !options_.fallback) return damages[0];
  absl::Status damage;
  for (const absl::Status& each : damages) {
    Log(absl::StrCat("checkpoint passed over: ", each.message()));
    damage.Update(each);
  }
  return RestoreLastOf(std::move(all), std::move(damage));
}

absl::StatusOr<std::optional<CheckpointStatus>> Checkpoints::RestoreLastOf(
    std::vector<CheckpointStatus> all, absl::Status damage) {
  for (; !all.empty(); all.pop_back()) {
    const CheckpointStatus& last = all.back();
    ASSIGN_OR_RETURN(const SavedCheckpoint saved,
                     SavedCheckpoint::Open(PathOf(last.name())));
    if (!saved.is_whole()) continue;
    const absl::Status status = RestoreAtStart(last, saved);
    if (status.ok()) {
      MutexLock lock(&mutex_);
      counts_.last_time = DecodeTime(last.create_time());
      counts_.last_bytes = last.bytes();
      former_ = last;
      return last;
    }
    if (!options_.fallback || !absl::IsDataLoss(status)) return status;
    Log(absl::StrCat("checkpoint passed over: name=", last.name(), " ",
                     status.message()));
    damage.Update(status);
  }
  // An empty store would look as if nothing had ever been saved.
  if (!damage.ok()) return damage;
  return std::nullopt;
}

absl::Status Checkpoints::RestoreAtStart(const CheckpointStatus& checkpoint,
                                         const SavedCheckpoint& saved) {
  {
    MutexLock lock(&mutex_);
    restoring_ = {.name = checkpoint.name(), .total_bytes = checkpoint.bytes()};
  }
  Log(absl::StrCat("checkpoint being restored: name=", checkpoint.name(),
                   " bytes=", checkpoint.bytes()));
  const std::unique_ptr<Restoration> restoration =
      store_.StartRestoration(OnExisting::kFail);
  absl::Status status =
      saved.RestoreTo(*restoration, {.on_bytes = [this](uint64_t bytes) {
        MutexLock lock(&mutex_);
        restoring_->bytes += bytes;
      }});
  if (status.ok()) status = restoration->Commit();
  MutexLock lock(&mutex_);
  restoring_.reset();
  return status;
}

absl::StatusOr<CheckpointStatus> Checkpoints::NextCheckpoint(
    const std::string& name, bool automatic, absl::Time start) const {
  ASSIGN_OR_RETURN(const std::vector<CheckpointStatus> all,
                   ListCheckpointsIn(options_.directory));
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ListDirectory(options_.directory));
  const auto is_taken = [&names](const std::string& each) {
    return std::binary_search(names.begin(), names.end(), each);
  };
  CheckpointStatus next;
  next.set_sequence(all.empty() ? 1 : all.back().sequence() + 1);
  EncodeTime(start, next.mutable_create_time());
  next.set_automatic(automatic);
  next.set_name(name);
  if (name.empty()) {
    const absl::string_view prefix = automatic ? "auto" : "saved";
    next.set_name(NumberedName(prefix, next.sequence()));
    // The name may be that of a checkpoint that cannot be read.
    while (is_taken(next.name())) {
      next.set_sequence(next.sequence() + 1);
      next.set_name(NumberedName(prefix, next.sequence()));
    }
    return next;
  }
  RETURN_IF_ERROR(CheckCheckpointName(name));
  if (!is_taken(name)) return next;
  return absl::AlreadyExistsError(
      absl::StrCat("checkpoint \"", name, "\" exists already"));
}

absl::StatusOr<CheckpointStatus> Checkpoints::SaveAs(
    const SaveCheckpointRequest& request, bool automatic) {
  MutexLock save_lock(&save_mutex_);
  const absl::Time start = absl::Now();
  const uint64_t damages_before = num_damages();
  absl::StatusOr<CheckpointStatus> saved =
      NextCheckpoint(request.name(), automatic, start);
  if (saved.ok()) saved = Write(request, *std::move(saved));
  Count(request, saved, start);
  if (saved.ok() && request.namespaces().empty()) {
    SetFormer(*saved, damages_before);
  }
  return saved;
}

void Checkpoints::Count(const SaveCheckpointRequest& request,
                        const absl::StatusOr<CheckpointStatus>& saved,
                        absl::Time start) {
  MutexLock lock(&mutex_);
  if (!saved.ok()) {
    if (!IsCallersError(request, saved.status())) ++counts_.failed;
    return;
  }
  ++counts_.saved;
  // No server starts from some of the namespaces.
  if (!request.namespaces().empty()) return;
  counts_.last_time = start;
  counts_.last_bytes = saved->bytes();
  counts_.last_written_bytes = saved->written_bytes();
  counts_.last_duration = absl::Now() - start;
}

std::optional<SavedCheckpoint> Checkpoints::FindFormer() const {
  std::optional<CheckpointStatus> former;
  {
    MutexLock lock(&mutex_);
    former = former_;
  }
  if (!former) return std::nullopt;
  absl::StatusOr<SavedCheckpoint> saved =
      SavedCheckpoint::Open(PathOf(former->name()));
  // It may have been removed, and another one may have its name.
  if (!saved.ok() || saved->status().sequence() != former->sequence() ||
      DecodeTime(saved->status().create_time()) !=
          DecodeTime(former->create_time())) {
    return std::nullopt;
  }
  if (saved->steps_from_full() + 1 >= options_.full_every) return std::nullopt;
  return *std::move(saved);
}

void Checkpoints::SetFormer(const CheckpointStatus& saved,
                            uint64_t num_damages) {
  MutexLock lock(&mutex_);
  if (num_damages_ == num_damages) former_ = saved;
}

void Checkpoints::ForgetFormer() {
  MutexLock lock(&mutex_);
  former_.reset();
  ++num_damages_;
}

absl::StatusOr<CheckpointStatus> Checkpoints::Write(
    const SaveCheckpointRequest& request, CheckpointStatus status) {
  const std::string path = PathOf(status.name());
  const std::string partial =
      PathOf(absl::StrCat(kPartialPrefix, status.name()));
  RETURN_IF_ERROR(RemoveDirectory(partial));
  RETURN_IF_ERROR(MakeDirectory(partial));
  absl::StatusOr<CheckpointStatus> written = WriteTo(partial, request, status);
  absl::Status end = written.status();
  if (end.ok()) end = Publish(partial, path);
  if (end.ok()) return written;
  // The reason why it is not wanted is what counts.
  RemoveDirectory(partial).IgnoreError();
  return end;
}

absl::Status Checkpoints::Publish(const std::string& partial,
                                  const std::string& path) {
  RETURN_IF_ERROR(Rename(partial, path));
  const absl::Status synced = options_.sync_directory(options_.directory);
  // A checkpoint that may be gone after a crash is not shown as if it were
  // saved.
  if (!synced.ok()) Rename(path, partial).IgnoreError();  // `synced` counts
  return synced;
}

absl::StatusOr<CheckpointStatus> Checkpoints::WriteTo(
    const std::string& directory, const SaveCheckpointRequest& request,
    const CheckpointStatus& status) {
  const std::optional<SavedCheckpoint> former = FindFormer();
  CheckpointWriter writer(directory, former ? &*former : nullptr,
                          options_.on_pause);
  RETURN_IF_ERROR(store_.TakeSnapshot(
      {request.namespaces().begin(), request.namespaces().end()}, writer));
  v1::CheckpointManifest manifest;
  *manifest.mutable_status() = status;
  // The writer knows what was written.
  manifest.mutable_status()->clear_bytes();
  manifest.mutable_status()->clear_num_keys();
  manifest.set_incarnation(options_.incarnation);
  manifest.set_partial(!request.namespaces().empty());
  return writer.Finish(std::move(manifest));
}

absl::StatusOr<CheckpointStatus> Checkpoints::Read(
    const std::string& name,
    absl::FunctionRef<absl::Status(const SavedCheckpoint&)> read) {
  if (is_caller_reading_.exchange(true)) {
    return absl::UnavailableError(
        "another checkpoint is being restored or verified");
  }
  const absl::Cleanup end = [this] { is_caller_reading_ = false; };
  RETURN_IF_ERROR(CheckCheckpointName(name));
  const std::string path = PathOf(name);
  const absl::StatusOr<SavedCheckpoint> saved = SavedCheckpoint::Open(path);
  if (absl::IsNotFound(saved.status())) return NoSuchCheckpoint(name);
  if (absl::IsDataLoss(saved.status())) ForgetFormer();
  RETURN_IF_ERROR(saved.status());
  const absl::Status status = read(*saved);
  // It may have been deleted while it was read.
  if (!status.ok() && !Exists(path)) return NoSuchCheckpoint(name);
  if (absl::IsDataLoss(status)) ForgetFormer();
  RETURN_IF_ERROR(status);
  return saved->status();
}

absl::Status Checkpoints::Remove(const std::string& name) {
  const std::string removed = PathOf(absl::StrCat(kRemovedPrefix, name));
  RETURN_IF_ERROR(RemoveDirectory(removed));
  RETURN_IF_ERROR(Rename(PathOf(name), removed));
  RETURN_IF_ERROR(SyncDirectory(options_.directory));
  return RemoveDirectory(removed);
}

void Checkpoints::RemoveOld() {
  const absl::StatusOr<std::vector<CheckpointStatus>> all =
      ListCheckpointsIn(options_.directory);
  if (!all.ok()) return;
  std::vector<std::string> automatic;
  for (const CheckpointStatus& each : *all) {
    if (each.automatic()) automatic.push_back(each.name());
  }
  for (size_t i = 0; i + options_.keep < automatic.size(); ++i) {
    const absl::Status status = Remove(automatic[i]);
    if (!status.ok()) Log(absl::StrCat("checkpoint stays: ", status.message()));
  }
}

absl::StatusOr<CheckpointStatus> Checkpoints::Save() {
  const absl::StatusOr<CheckpointStatus> saved = SaveAs({}, true);
  if (!saved.ok()) {
    Log(absl::StrCat("checkpoint failed: ", saved.status().message()));
    return saved;
  }
  Log(absl::StrCat("checkpoint saved: name=", saved->name(),
                   " keys=", saved->num_keys(), " bytes=", saved->bytes(),
                   " written_bytes=", saved->written_bytes(),
                   " seconds=", absl::ToDoubleSeconds(counts().last_duration)));
  RemoveOld();
  return saved;
}

void Checkpoints::StartSaving(absl::Duration interval) {
  thread_ = std::thread([this, interval] { SaveEvery(interval); });
}

void Checkpoints::SaveEvery(absl::Duration interval) {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      bool is_due = false;
      while (!is_stopping_ && !is_due) {
        is_due = stopped_.WaitWithTimeout(&mutex_, interval);
      }
      if (is_stopping_) return;
    }
    Save().IgnoreError();  // it is logged and counted
  }
}

void Checkpoints::Stop() {
  {
    MutexLock lock(&mutex_);
    is_stopping_ = true;
    stopped_.SignalAll();
  }
  if (thread_.joinable()) thread_.join();
}

std::optional<RestoreProgress> Checkpoints::restoring() const {
  MutexLock lock(&mutex_);
  return restoring_;
}

CheckpointCounts Checkpoints::counts() const {
  MutexLock lock(&mutex_);
  return counts_;
}

absl::StatusOr<SaveCheckpointReply> Checkpoints::SaveCheckpoint(
    const SaveCheckpointRequest& request, const CallContext&) {
  if (is_caller_saving_.exchange(true)) {
    return absl::UnavailableError("another checkpoint is being written");
  }
  const absl::Cleanup end = [this] { is_caller_saving_ = false; };
  return ReplyWith<SaveCheckpointReply>(SaveAs(request, false));
}

absl::StatusOr<RestoreCheckpointReply> Checkpoints::RestoreCheckpoint(
    const RestoreCheckpointRequest& request, const CallContext& context) {
  ASSIGN_OR_RETURN(const OnExisting on_existing,
                   DecodeOnExisting(request.on_existing()));
  if (on_existing == OnExisting::kKeep) {
    return absl::InvalidArgumentError(
        "on_existing of a checkpoint: expected FAIL or REPLACE, got KEEP");
  }
  const auto restore = [&](const SavedCheckpoint& saved) {
    const std::unique_ptr<Restoration> restoration =
        store_.StartRestoration(on_existing);
    RETURN_IF_ERROR(saved.RestoreTo(
        *restoration, {.namespaces = {request.namespaces().begin(),
                                      request.namespaces().end()},
                       .as_namespace = request.as_namespace(),
                       .uid = request.uid(),
                       .cancellation = context.cancellation.get()}));
    // A checkpoint that is being saved has all of these as they were before.
    MutexLock save_lock(&save_mutex_);
    RETURN_IF_ERROR(CheckNotCancelled(context.cancellation.get()));
    return restoration->Commit();
  };
  absl::StatusOr<CheckpointStatus> restored = Read(request.name(), restore);
  if (restored.ok()) {
    Log(absl::StrCat("checkpoint restored by a call: name=", restored->name()));
  }
  return ReplyWith<RestoreCheckpointReply>(std::move(restored));
}

absl::StatusOr<ListCheckpointsReply> Checkpoints::ListCheckpoints(
    const ListCheckpointsRequest& request, const CallContext&) {
  const size_t page_size = request.page_size() == 0
                               ? kDefaultPageSize
                               : std::min(request.page_size(), kMaxPageSize);
  // One more than the page tells whether there is another.
  ASSIGN_OR_RETURN(std::vector<CheckpointStatus> some,
                   ListCheckpointsAfter(options_.directory,
                                        request.page_token(), page_size + 1));
  ListCheckpointsReply reply;
  if (some.size() > page_size) {
    some.pop_back();
    reply.set_next_page_token(some.back().name());
  }
  reply.mutable_checkpoints()->Add(std::make_move_iterator(some.begin()),
                                   std::make_move_iterator(some.end()));
  return reply;
}

absl::Status Checkpoints::DeleteCheckpoint(
    const DeleteCheckpointRequest& request, const CallContext&) {
  RETURN_IF_ERROR(CheckCheckpointName(request.name()));
  // A directory of somebody else stays.
  if (!Exists(PathOf(request.name()) + "/CHECKPOINT")) {
    return NoSuchCheckpoint(request.name());
  }
  const absl::Status status = Remove(request.name());
  return absl::IsNotFound(status) ? NoSuchCheckpoint(request.name()) : status;
}

absl::StatusOr<VerifyCheckpointReply> Checkpoints::VerifyCheckpoint(
    const VerifyCheckpointRequest& request, const CallContext& context) {
  return ReplyWith<VerifyCheckpointReply>(
      Read(request.name(), [&](const SavedCheckpoint& saved) {
        return saved.Verify(context.cancellation.get());
      }));
}

}  // namespace tensorkv
