#include "client/cluster/splitting_connection.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/share_outcomes.h"
#include "client/cluster/split_call.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "contract/retry_delay.h"
#include "contract/row_ids.h"
#include "google/protobuf/repeated_ptr_field.h"

namespace tensorkv {
namespace {

// Bounds how long a call waits for a key that does not exist before it looks
// whether it is in slices.
constexpr absl::Duration kLongestWait = absl::Seconds(1);

// Elements take no more; those of a contribution may take less than the key's.
constexpr uint64_t kMaxElementBytes = 8;

// Bounds how often a call is made by other layouts that somebody has made
// meanwhile.
constexpr int kMostRepeats = 3;

// Calls that change nothing, and may be made by other layouts after all.
template <typename Request>
inline constexpr bool kReads = std::is_base_of_v<PullRequest, Request> ||
                               std::is_same_v<Request, GetStateRequest> ||
                               std::is_same_v<Request, StatRequest>;

template <typename Request>
inline constexpr bool kIsSplit =
    kNamesKeys<Request> || std::is_same_v<Request, ListRequest> ||
    std::is_same_v<Request, SetRuleRequest> ||
    std::is_same_v<Request, UpdateNamespaceRequest> ||
    std::is_same_v<Request, DeleteNamespaceRequest>;

template <typename Request>
bool WaitsForKeys(const Request& request) {
  if constexpr (requires { request.wait_for_keys; }) {
    return request.wait_for_keys;
  } else {
    return false;
  }
}

bool IsOfMissingKey(const absl::Status& status) {
  return ReasonOf(status) == Reason::kKeyNotFound;
}

template <typename Request>
bool NamesOneOf(const SplitLayouts& layouts, const Request& request) {
  return absl::c_any_of(EntriesIn(request), [&](const auto& entry) {
    return FindLayout(layouts, KeyIn(entry)) != nullptr;
  });
}

// Returns whether the call would be another by the other layouts.
template <typename Request>
bool Differ(const SplitLayouts& a, const SplitLayouts& b,
            const Request& request) {
  return absl::c_any_of(EntriesIn(request), [&](const auto& entry) {
    const SplitLayout* const in_a = FindLayout(a, KeyIn(entry));
    const SplitLayout* const in_b = FindLayout(b, KeyIn(entry));
    if (in_a == nullptr || in_b == nullptr) return in_a != in_b;
    return !(*in_a == *in_b);
  });
}

// Returns a status about slices as one about their keys.
absl::Status AboutKeys(const absl::Status& status) {
  if (status.ok()) return status;
  absl::Status result(status.code(), WithWholeKeys(status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    result.SetPayload(url, absl::Cord(std::string(payload)));
  });
  ClearEffectMark(result);
  std::optional<ErrorInfo> info = ErrorInfoOf(status);
  if (!info) return result;
  for (auto& [name, value] : info->metadata)
    value = std::string(WholeKeyOf(value));
  return WithInfo(std::move(result), *info);
}

absl::Status Exists(const InitEntry& entry, const SplitLayout& layout,
                    OnExisting on_existing) {
  if (on_existing == OnExisting::kFail) {
    return WithReason(absl::AlreadyExistsError(absl::StrCat(
                          "key \"", entry.key, "\": exists already")),
                      Reason::kKeyExists, {{"key", entry.key}});
  }
  return WithReason(absl::FailedPreconditionError(absl::StrCat(
                        "key \"", entry.key, "\": expected ",
                        Description(layout.dtype, layout.shape),
                        ", which exists, got ", entry.tensor.Description())),
                    Reason::kExistsDifferently, {{"key", entry.key}});
}

// Adds the slices of a key that is to have another layout to `removed`, if it
// may be replaced.
absl::Status Replace(const InitEntry& entry, const SplitLayout& layout,
                     OnExisting on_existing,
                     std::vector<std::string>& removed) {
  if (on_existing != OnExisting::kReplace) {
    return Exists(entry, layout, on_existing);
  }
  for (uint32_t i = 0; i < layout.num_slices; ++i) {
    removed.push_back(layout.NameOf(i));
  }
  return absl::OkStatus();
}

// Returns a request about keys that the caller adds to it.
StatRequest StatOf(const std::string& name_space, uint64_t uid) {
  StatRequest request;
  request.set_namespace_(name_space);
  request.set_namespace_uid(uid);
  return request;
}

using KeyStatuses = google::protobuf::RepeatedPtrField<KeyStatus>;

void MoveAll(KeyStatuses& from, KeyStatuses& to) {
  to.Reserve(to.size() + from.size());
  for (KeyStatus& status : from) to.Add(std::move(status));
}

// Ends a page before its first slice: it is the last page then, since no other
// key comes after slices.
void EndBeforeSlices(ListReply& page) {
  auto& keys = *page.mutable_keys();
  const auto end = absl::c_find_if(keys, [](const KeyStatus& status) {
    return absl::StartsWith(status.key(), kSliceMark);
  });
  if (end == keys.end()) return;
  keys.erase(end, keys.end());
  page.clear_next_page_token();
}

// Returns the keys of `layouts` that belong on the page that the request asks
// for, which ends with the last of them if no more fits.
std::vector<std::string> KeysOnPage(const SplitLayouts& layouts,
                                    const ListRequest& request,
                                    ListReply& page) {
  std::vector<std::string> keys;
  for (const auto& [key, layout] : layouts) {
    if (!absl::StartsWith(key, request.prefix())) continue;
    if (!request.page_token().empty() && key <= request.page_token()) continue;
    const std::string& end = page.next_page_token();
    if (!end.empty() && key > end) continue;
    // Their statuses take a call about every slice.
    if (request.page_size() > 0 && keys.size() == request.page_size()) {
      page.set_next_page_token(keys.back());
      // The statuses are in order.
      auto& statuses = *page.mutable_keys();
      const auto after =
          absl::c_find_if(statuses, [&](const KeyStatus& status) {
            return status.key() > page.next_page_token();
          });
      statuses.erase(after, statuses.end());
      break;
    }
    keys.push_back(key);
  }
  return keys;
}

}  // namespace

Task<absl::Status> SplittingConnection::Make(AnyCall call, CallOptions options,
                                             CallThreads* threads) {
  const CallLimit limit(options, threads);
  Task<absl::Status> task =
      call.Visit([&](const auto& request, auto& reply) -> Task<absl::Status> {
        return MakeAs(request, reply, limit);
      });
  const absl::Status status = co_await task;
  co_return AboutKeys(status);
}

template <typename Request>
Task<absl::Status> SplittingConnection::MakeAs(const Request& request,
                                               ReplyTo<Request>& reply,
                                               const CallLimit& limit) {
  if constexpr (kMayReadSnapshot<Request>) {
    const SnapshotReference* const at = SnapshotIn(request);
    if (at != nullptr && at->uid() == 0) {
      co_return co_await MakeAtSnapshot(request, reply, limit);
    }
  }
  if constexpr (kIsSplit<Request>) {
    CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                        co_await inner_->Placement(limit));
    if (placement->split_bytes > 0) {
      CO_ASSIGN_OR_RETURN(reply, co_await Route(request, *placement, limit));
      co_return absl::OkStatus();
    }
  }
  CallOptions options = limit.Options();
  options.destinations = limit.destinations;
  co_return co_await MadeCall(*inner_, AnyCall(request, reply), options,
                              limit.threads);
}

template <typename Request>
Task<absl::Status> SplittingConnection::MakeAtSnapshot(const Request& request,
                                                       ReplyTo<Request>& reply,
                                                       const CallLimit& limit) {
  const SnapshotReference& at = *SnapshotIn(request);
  uint64_t last = 0;
  for (;;) {
    CO_ASSIGN_OR_RETURN(
        const KnownSnapshot known,
        co_await inner_->Resolve(NamespaceIn(request), at, limit));
    Request made = request;
    SetSnapshot(known.reference(), made);
    const absl::Status status = co_await MakeAs(made, reply, limit);
    // The series goes on faster than it is read, or the number is another's, as
    // the home was started anew.
    const Reason reason = ReasonOf(status);
    const bool may_go_on = (reason == Reason::kSnapshotLost ||
                            reason == Reason::kSnapshotNotFound) &&
                           known.uid != last;
    if (!may_go_on) co_return status;
    last = known.uid;
  }
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> SplittingConnection::Route(
    const Request& request, const ClusterPlacement& placement,
    const CallLimit& limit) {
  if constexpr (std::is_same_v<Request, ListRequest>) {
    co_return co_await List(request, limit);
  } else if constexpr (std::is_same_v<Request, DeleteRequest>) {
    co_return co_await Delete(request, limit);
  } else if constexpr (std::is_same_v<Request, DeleteNamespaceRequest>) {
    auto reply = co_await Pass(request, limit);
    keys_.Forget(request.namespace_());
    co_return reply;
  } else if constexpr (std::is_same_v<Request, SetRuleRequest>) {
    CO_RETURN_IF_ERROR(co_await CheckTakesRule(request, limit));
    co_return co_await Pass(request, limit);
  } else if constexpr (std::is_same_v<Request, UpdateNamespaceRequest>) {
    CO_RETURN_IF_ERROR(co_await CheckTakesGuard(request, limit));
    co_return co_await Pass(request, limit);
  } else if constexpr (std::is_same_v<Request, InitRequest>) {
    co_return co_await CreateKeys(request, placement, limit);
  } else {
    co_return co_await MakeOfKeys(request, placement, limit);
  }
}

// --- Calls about keys -------------------------------------------------------

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> SplittingConnection::MakeOfKeys(
    const Request& request, const ClusterPlacement& placement,
    const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(SplitLayoutsPtr layouts,
                      co_await LayoutsFor(request, placement, limit));
  // Has a value once it is another call than the one that was asked for.
  std::optional<Request> next;
  for (int attempt = 0;; ++attempt) {
    if constexpr (requires { request.wait_for_keys; }) {
      if (request.wait_for_keys && !request.at) {
        CO_ASSIGN_OR_RETURN(layouts,
                            co_await AwaitKeys(request, layouts, limit));
        next = request;
        next->wait_for_keys = false;
      }
    } else if (attempt > 0) {
      next = request;
      NameAttempt("~", attempt, *next);
    }
    const Request& made = next ? *next : request;
    auto reply = co_await MakeBy(*layouts, made, limit, limit.destinations);
    const bool may_be_in_slices =
        IsOfMissingKey(reply.status()) && SnapshotIn(request) == nullptr;
    if (!may_be_in_slices) co_return reply;
    CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr newer,
                        co_await Refresh(NamespaceIn(request), limit));
    const bool may_be_repeated =
        (kReads<Request> || HadNoEffect(reply.status())) &&
        attempt < kMostRepeats;
    const bool may_be_found =
        may_be_repeated && Differ(*layouts, *newer, request);
    layouts = newer;
    // Keys that are waited for may go again before they are read.
    if (!may_be_found && !WaitsForKeys(request)) co_return reply;
  }
}

// Values go only once all keys are there: what takes long to receive would
// else be received again and again for the sake of a key that is not.
template <typename Request>
Task<absl::StatusOr<SplitLayoutsPtr>> SplittingConnection::AwaitKeys(
    const Request& request, const SplitLayoutsPtr& known,
    const CallLimit& limit) {
  SplitLayoutsPtr layouts = known;
  StatRequest stat = StatOf(NamespaceIn(request), NamespaceUidIn(request));
  for (const auto& entry : request.entries) stat.add_keys(entry.key);
  for (;;) {
    const absl::StatusOr<StatReply> found =
        co_await MakeBy(*layouts, stat, limit);
    const absl::Status& status = found.status();
    if (absl::IsDeadlineExceeded(status)) co_return status;
    // The call tells any other error.
    if (!IsOfMissingKey(status)) co_return layouts;
    const std::string missing = ErrorInfoOf(status)->metadata["key"];
    const absl::Status waited = co_await AwaitKey(request, missing, limit);
    const bool may_come = waited.ok() || absl::IsDeadlineExceeded(waited) ||
                          absl::IsUnavailable(waited) ||
                          IsOfMissingKey(waited) || RetryDelayOf(waited);
    if (!may_come || limit.TimeLeft() <= absl::ZeroDuration()) {
      co_return waited.ok() ? status : waited;
    }
    CO_ASSIGN_OR_RETURN(layouts, co_await Refresh(request.name_space, limit));
  }
}

// Reads none of its rows, so that nothing but the answer has to come.
Task<absl::Status> SplittingConnection::AwaitKey(const PullRequest& request,
                                                 const std::string& key,
                                                 const CallLimit& limit) {
  PullRowsRequest wait;
  wait.name_space = request.name_space;
  wait.namespace_uid = request.namespace_uid;
  wait.wait_for_keys = true;
  PullEntry& entry = wait.entries.emplace_back();
  entry.key = key;
  CO_ASSIGN_OR_RETURN(Tensor none, Tensor::Allocate(DType::kI64, {0}));
  CO_ASSIGN_OR_RETURN(entry.rows, RowIds::Create(std::move(none)));
  const CallLimit of_wait = limit.Within(kLongestWait);
  const absl::StatusOr<PullReply> none_read = co_await Pass(wait, of_wait);
  co_return none_read.status();
}

template <typename Request>
Task<absl::StatusOr<ReplyTo<Request>>> SplittingConnection::MakeBy(
    const SplitLayouts& layouts, const Request& request, const CallLimit& limit,
    absl::Span<const Destination> destinations) {
  if (!NamesOneOf(layouts, request)) {
    co_return co_await Pass(request, limit, destinations);
  }
  CO_ASSIGN_OR_RETURN(auto call, SplitCall<Request>::Create(request, layouts));
  std::vector<Destination> of_slices;
  if constexpr (std::is_same_v<Request, PullRequest> ||
                std::is_same_v<Request, PushPullRequest>) {
    CO_ASSIGN_OR_RETURN(of_slices, call.AllocateDestinations(destinations));
  }
  CO_ASSIGN_OR_RETURN(auto reply, co_await Pass(call.made(), limit, of_slices));
  co_return call.Join(std::move(reply));
}

template <typename Request>
Task<absl::StatusOr<SplitLayoutsPtr>> SplittingConnection::LayoutsFor(
    const Request& request, const ClusterPlacement& placement,
    const CallLimit& limit) {
  if (const SnapshotReference* const at = SnapshotIn(request)) {
    co_return co_await LayoutsAt(NamespaceIn(request), *at, limit);
  }
  const auto list = [&](const ListRequest& page) { return Pass(page, limit); };
  CO_ASSIGN_OR_RETURN(SplitLayoutsPtr layouts,
                      co_await keys_.Of(NamespaceIn(request), list));
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    if (!MayBeUnknown(request, *layouts, placement)) co_return layouts;
    CO_ASSIGN_OR_RETURN(layouts, co_await Refresh(request.name_space, limit));
    for (const PushEntry& entry : request.entries) {
      if (FindLayout(*layouts, entry.key) != nullptr) continue;
      keys_.SetKnownWhole(request.name_space, entry.key);
    }
  } else if constexpr (std::is_same_v<Request, SetStateRequest>) {
    co_return co_await Refresh(request.name_space, limit);
  }
  co_return layouts;
}

bool SplittingConnection::MayBeUnknown(
    const PushRequest& request, const SplitLayouts& layouts,
    const ClusterPlacement& placement) const {
  return absl::c_any_of(request.entries, [&](const PushEntry& entry) {
    const bool is_part = entry.skip || entry.rows != nullptr;
    const SplitLayout* const layout = FindLayout(layouts, entry.key);
    if (layout != nullptr) return !is_part && entry.shape() != layout->shape;
    const uint64_t num_elements = entry.shape().num_elements();
    const bool may_be_large =
        is_part || num_elements * kMaxElementBytes > placement.split_bytes;
    return may_be_large && !keys_.IsKnownWhole(request.name_space, entry.key);
  });
}

// --- What there is ----------------------------------------------------------

Task<absl::StatusOr<InitReply>> SplittingConnection::CreateKeys(
    const InitRequest& request, const ClusterPlacement& placement,
    const CallLimit& limit) {
  std::vector<std::string> removed;
  CO_ASSIGN_OR_RETURN(
      const SplitLayouts layouts,
      co_await PlanCreation(request, placement, limit, removed));
  if (!removed.empty()) {
    DeleteRequest deletion;
    deletion.set_namespace_(request.name_space);
    deletion.set_namespace_uid(request.namespace_uid);
    deletion.mutable_keys()->Assign(removed.begin(), removed.end());
    deletion.set_allow_missing(true);
    CO_RETURN_IF_ERROR(co_await Pass(deletion, limit));
  }
  auto reply = co_await MakeBy(layouts, request, limit);
  // A created key, perhaps in part, is known no more as it was.
  if (!layouts.empty()) keys_.Forget(request.name_space);
  co_return reply;
}

Task<absl::StatusOr<SplitLayouts>> SplittingConnection::PlanCreation(
    const InitRequest& request, const ClusterPlacement& placement,
    const CallLimit& limit, std::vector<std::string>& removed) {
  CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr existing,
                      co_await Refresh(request.name_space, limit));
  SplitLayouts layouts;
  std::optional<bool> takes_slices;
  for (const InitEntry& entry : request.entries) {
    const Tensor& tensor = entry.tensor;
    std::optional<SplitLayout> planned =
        PlanSplit(placement, entry.key, tensor.dtype(), tensor.shape());
    if (const SplitLayout* const layout = FindLayout(*existing, entry.key)) {
      if (layout->dtype == tensor.dtype() && layout->shape == tensor.shape()) {
        layouts[entry.key] = *layout;
        continue;
      }
      CO_RETURN_IF_ERROR(Replace(entry, *layout, request.on_existing, removed));
    } else if (planned) {
      CO_ASSIGN_OR_RETURN(
          const bool is_whole,
          co_await QueryIsWhole(request.name_space, entry.key, limit));
      if (is_whole) continue;
    }
    if (!planned) continue;
    if (!takes_slices) {
      CO_ASSIGN_OR_RETURN(
          takes_slices, co_await QueryAllowsSlices(request.name_space, limit));
    }
    if (*takes_slices) layouts[entry.key] = *planned;
  }
  co_return layouts;
}

Task<absl::StatusOr<bool>> SplittingConnection::QueryIsWhole(
    const std::string& name_space, const std::string& key,
    const CallLimit& limit) {
  StatRequest request = StatOf(name_space, /*uid=*/0);
  request.add_keys(key);
  const absl::StatusOr<StatReply> reply = co_await Pass(request, limit);
  // The Init tells any other error.
  const bool is_missing = absl::IsNotFound(reply.status()) ||
                          absl::IsInvalidArgument(reply.status());
  if (is_missing) co_return false;
  CO_RETURN_IF_ERROR(reply.status());
  co_return true;
}

Task<absl::StatusOr<bool>> SplittingConnection::QueryAllowsSlices(
    const std::string& name_space, const CallLimit& limit) {
  DescribeNamespaceRequest request;
  request.set_namespace_(name_space);
  CO_ASSIGN_OR_RETURN(const DescribeNamespaceReply reply,
                      co_await Pass(request, limit));
  const NamespaceStatus& status = reply.status();
  CO_ASSIGN_OR_RETURN(const NamespaceConfig config, FromProto(status.config()));
  co_return !config.gradient_guard.is_on() &&
      !NeedsWholeKeys(config.rule.name) &&
      absl::c_none_of(status.rules(), [](const v1::RuleBinding& binding) {
        return NeedsWholeKeys(binding.rule().name());
      });
}

Task<absl::Status> SplittingConnection::CheckTakesRule(
    const SetRuleRequest& request, const CallLimit& limit) {
  if (!NeedsWholeKeys(request.rule().name())) co_return absl::OkStatus();
  // The servers tell any other error.
  if (request.key_pattern().size() > kMaxPatternBytes) {
    co_return absl::OkStatus();
  }
  CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                      co_await Refresh(request.namespace_(), limit));
  const Glob glob(request.key_pattern());
  for (const auto& [key, layout] : *layouts) {
    if (!request.key_pattern().empty() && !glob.Matches(key)) continue;
    co_return absl::InvalidArgumentError(
        absl::StrCat("key \"", key, "\": ", request.rule().name(),
                     ": expected whole keys, got one in slices"));
  }
  co_return absl::OkStatus();
}

Task<absl::Status> SplittingConnection::CheckTakesGuard(
    const UpdateNamespaceRequest& request, const CallLimit& limit) {
  const bool sets_guard = absl::c_any_of(
      request.update_mask().paths(), [](const std::string& path) {
        return absl::StartsWith(path, "gradient_guard");
      });
  if (!sets_guard) co_return absl::OkStatus();
  CO_ASSIGN_OR_RETURN(const NamespaceConfig config,
                      KnownConfig(request.config()));
  if (!config.gradient_guard.is_on()) co_return absl::OkStatus();
  CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                      co_await Refresh(request.namespace_(), limit));
  if (layouts->empty()) co_return absl::OkStatus();
  co_return absl::InvalidArgumentError(absl::StrCat(
      "gradient_guard: expected none in a namespace that has key \"",
      layouts->begin()->first, "\" in slices, got one"));
}

Task<absl::StatusOr<DeleteReply>> SplittingConnection::Delete(
    const DeleteRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                      co_await Refresh(request.namespace_(), limit));
  if (!NamesOneOf(*layouts, request)) {
    co_return co_await Pass(request, limit);
  }
  DeleteRequest made = request;
  made.clear_keys();
  uint64_t num_more = 0;
  for (const std::string& key : request.keys()) {
    const SplitLayout* const layout = FindLayout(*layouts, key);
    if (layout == nullptr) {
      made.add_keys(key);
      continue;
    }
    for (uint32_t i = 0; i < layout->num_slices; ++i) {
      made.add_keys(layout->NameOf(i));
    }
    num_more += layout->num_slices - 1;
  }
  absl::StatusOr<DeleteReply> reply = co_await Pass(made, limit);
  keys_.Forget(request.namespace_());
  if (!reply.ok()) co_return reply;
  const uint64_t num_deleted = reply->num_deleted();
  reply->set_num_deleted(num_deleted - std::min(num_deleted, num_more));
  co_return reply;
}

Task<absl::StatusOr<StatReply>> SplittingConnection::StatThoseWhole(
    const SplitLayouts& layouts, const StatRequest& request,
    const CallLimit& limit) {
  auto reply = co_await MakeBy(layouts, request, limit);
  if (ReasonOf(reply.status()) != Reason::kKeyNotFound) co_return reply;
  StatReply found;
  for (const std::string& key : request.keys()) {
    StatRequest one = request;
    one.clear_keys();
    one.add_keys(key);
    reply = co_await MakeBy(layouts, one, limit);
    if (ReasonOf(reply.status()) == Reason::kKeyNotFound) continue;
    CO_RETURN_IF_ERROR(reply.status());
    MoveAll(*reply->mutable_keys(), *found.mutable_keys());
  }
  co_return found;
}

Task<absl::StatusOr<ListReply>> SplittingConnection::List(
    const ListRequest& request, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(ListReply page, co_await Pass(request, limit));
  // A caller who asks for slices gets them.
  if (absl::StartsWith(request.prefix(), kSliceMark)) co_return page;
  EndBeforeSlices(page);
  SplitLayoutsPtr layouts;
  StatRequest split = StatOf(request.namespace_(), request.namespace_uid());
  if (request.has_at()) {
    *split.mutable_at() = request.at();
    CO_ASSIGN_OR_RETURN(
        layouts, co_await LayoutsAt(request.namespace_(), request.at(), limit));
  } else {
    CO_ASSIGN_OR_RETURN(layouts, co_await Refresh(request.namespace_(), limit));
  }
  for (std::string& key : KeysOnPage(*layouts, request, page)) {
    split.add_keys(std::move(key));
  }
  if (split.keys().empty()) co_return page;
  CO_ASSIGN_OR_RETURN(StatReply statuses,
                      co_await StatThoseWhole(*layouts, split, limit));
  auto& keys = *page.mutable_keys();
  MoveAll(*statuses.mutable_keys(), keys);
  absl::c_sort(keys, [](const KeyStatus& a, const KeyStatus& b) {
    return a.key() < b.key();
  });
  const auto page_size =
      static_cast<int>(std::min<uint32_t>(request.page_size(), keys.size()));
  if (page_size > 0 && page_size < keys.size()) {
    keys.erase(keys.begin() + page_size, keys.end());
    page.set_next_page_token(keys[page_size - 1].key());
  }
  co_return page;
}

}  // namespace tensorkv
