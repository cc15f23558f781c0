#include "client/cluster/splitting_connection.h"

#include <algorithm>
#include <optional>
#include <type_traits>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/share_outcomes.h"
#include "client/cluster/snapshot_calls.h"
#include "client/cluster/split_call.h"
#include "client/internal/steady_now.h"
#include "contract/glob.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
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

// Until when a call may take, of whatever calls it is made.
class SplittingConnection::Limit {
 public:
  explicit Limit(const CallOptions& options)
      : options_(options), end_(SteadyNow() + options.timeout) {}

  absl::Duration time_left() const { return end_ - SteadyNow(); }
  // Returns the options of a share of the call, which has no memory of the
  // caller's.
  CallOptions OfShare(absl::Duration longest = absl::InfiniteDuration()) const {
    return {.timeout = std::min(time_left(), longest),
            .canceller = options_.canceller};
  }
  absl::Span<const Destination> destinations() const {
    return options_.destinations;
  }

 private:
  const CallOptions& options_;
  const absl::Duration end_;
};

absl::Status SplittingConnection::Attempt(const AnyCall& call,
                                          const CallOptions& options) {
  return call.Visit([&](const auto& request, auto& reply) -> absl::Status {
    using Request = std::decay_t<decltype(request)>;
    // An Init might else remove slices before it is refused.
    RETURN_IF_ERROR(CheckNeedsNoSnapshot(request));
    if constexpr (kIsSplit<Request>) {
      const Limit limit(options);
      ASSIGN_OR_RETURN(const PlacementPtr placement,
                       inner_->Placement(options));
      if (placement->split_bytes > 0) {
        auto made = Route(request, *placement, limit);
        RETURN_IF_ERROR(AboutKeys(made.status()));
        reply = *std::move(made);
        return absl::OkStatus();
      }
    }
    return AboutKeys(inner_->Attempt(call, options));
  });
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> SplittingConnection::Route(
    const Request& request, const ClusterPlacement& placement,
    const Limit& limit) {
  if constexpr (std::is_same_v<Request, ListRequest>) {
    return List(request, limit);
  } else if constexpr (std::is_same_v<Request, DeleteRequest>) {
    return Delete(request, limit);
  } else if constexpr (std::is_same_v<Request, DeleteNamespaceRequest>) {
    auto reply = inner_->Call(request, limit.OfShare());
    keys_.Forget(request.namespace_());
    return reply;
  } else if constexpr (std::is_same_v<Request, SetRuleRequest>) {
    RETURN_IF_ERROR(CheckTakesRule(request, limit));
    return inner_->Call(request, limit.OfShare());
  } else if constexpr (std::is_same_v<Request, UpdateNamespaceRequest>) {
    RETURN_IF_ERROR(CheckTakesGuard(request, limit));
    return inner_->Call(request, limit.OfShare());
  } else if constexpr (std::is_same_v<Request, InitRequest>) {
    return CreateKeys(request, placement, limit);
  } else {
    return MakeOfKeys(request, placement, limit);
  }
}

// --- Calls about keys -------------------------------------------------------

template <typename Request>
absl::StatusOr<ReplyTo<Request>> SplittingConnection::MakeOfKeys(
    const Request& request, const ClusterPlacement& placement,
    const Limit& limit) {
  ASSIGN_OR_RETURN(SplitLayoutsPtr layouts,
                   LayoutsFor(request, placement, limit));
  // Has a value once it is another call than the one that was asked for.
  std::optional<Request> next;
  for (int attempt = 0;; ++attempt) {
    if constexpr (requires { request.wait_for_keys; }) {
      if (request.wait_for_keys) {
        ASSIGN_OR_RETURN(layouts, AwaitKeys(request, layouts, limit));
        next = request;
        next->wait_for_keys = false;
      }
    } else if (attempt > 0) {
      next = request;
      NameAttempt("~", attempt, *next);
    }
    const Request& made = next ? *next : request;
    CallOptions options = limit.OfShare();
    options.destinations = limit.destinations();
    auto reply = MakeBy(*layouts, made, options);
    if (!IsOfMissingKey(reply.status())) return reply;
    ASSIGN_OR_RETURN(const SplitLayoutsPtr newer,
                     Refresh(NamespaceIn(request), limit));
    const bool may_be_repeated =
        (kReads<Request> || HadNoEffect(reply.status())) &&
        attempt < kMostRepeats;
    const bool may_be_found =
        may_be_repeated && Differ(*layouts, *newer, request);
    layouts = newer;
    // Keys that are waited for may go again before they are read.
    if (!may_be_found && !WaitsForKeys(request)) return reply;
  }
}

// Values go only once all keys are there: what takes long to receive would
// else be received again and again for the sake of a key that is not.
template <typename Request>
absl::StatusOr<SplitLayoutsPtr> SplittingConnection::AwaitKeys(
    const Request& request, SplitLayoutsPtr layouts, const Limit& limit) {
  StatRequest stat = StatOf(NamespaceIn(request), NamespaceUidIn(request));
  for (const auto& entry : request.entries) stat.add_keys(entry.key);
  for (;;) {
    const absl::Status status =
        MakeBy(*layouts, stat, limit.OfShare()).status();
    if (absl::IsDeadlineExceeded(status)) return status;
    // The call tells any other error.
    if (!IsOfMissingKey(status)) return layouts;
    const absl::Status waited =
        AwaitKey(request, ErrorInfoOf(status)->metadata["key"], limit);
    if (limit.time_left() <= absl::ZeroDuration()) {
      return waited.ok() ? status : waited;
    }
    ASSIGN_OR_RETURN(layouts, Refresh(request.name_space, limit));
  }
}

// Reads none of its rows, so that nothing but the answer has to come.
absl::Status SplittingConnection::AwaitKey(const PullRequest& request,
                                           const std::string& key,
                                           const Limit& limit) {
  PullRowsRequest wait;
  wait.name_space = request.name_space;
  wait.namespace_uid = request.namespace_uid;
  wait.wait_for_keys = true;
  PullEntry& entry = wait.entries.emplace_back();
  entry.key = key;
  ASSIGN_OR_RETURN(Tensor none, Tensor::Allocate(DType::kI64, {0}));
  ASSIGN_OR_RETURN(entry.rows, RowIds::Create(std::move(none)));
  return inner_->Call(wait, limit.OfShare(kLongestWait)).status();
}

template <typename Request>
absl::StatusOr<ReplyTo<Request>> SplittingConnection::MakeBy(
    const SplitLayouts& layouts, const Request& request,
    const CallOptions& options) {
  if (!NamesOneOf(layouts, request)) return inner_->Call(request, options);
  ASSIGN_OR_RETURN(auto call, SplitCall<Request>::Create(request, layouts));
  CallOptions of_slices = options;
  of_slices.destinations = {};
  std::vector<Destination> destinations;
  if constexpr (std::is_same_v<Request, PullRequest> ||
                std::is_same_v<Request, PushPullRequest>) {
    ASSIGN_OR_RETURN(destinations,
                     call.AllocateDestinations(options.destinations));
    of_slices.destinations = destinations;
  }
  ASSIGN_OR_RETURN(auto reply, inner_->Call(call.made(), of_slices));
  return call.Join(std::move(reply));
}

template <typename Request>
absl::StatusOr<SplitLayoutsPtr> SplittingConnection::LayoutsFor(
    const Request& request, const ClusterPlacement& placement,
    const Limit& limit) {
  ASSIGN_OR_RETURN(SplitLayoutsPtr layouts,
                   keys_.Of(NamespaceIn(request), [&](const ListRequest& list) {
                     return inner_->Call(list, limit.OfShare());
                   }));
  if constexpr (std::is_base_of_v<PushRequest, Request>) {
    if (!MayBeUnknown(request, *layouts, placement)) return layouts;
    ASSIGN_OR_RETURN(layouts, Refresh(request.name_space, limit));
    for (const PushEntry& entry : request.entries) {
      if (FindLayout(*layouts, entry.key) != nullptr) continue;
      keys_.SetKnownWhole(request.name_space, entry.key);
    }
  } else if constexpr (std::is_same_v<Request, SetStateRequest>) {
    return Refresh(request.name_space, limit);
  }
  return layouts;
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

absl::StatusOr<SplitLayoutsPtr> SplittingConnection::Refresh(
    const std::string& name_space, const Limit& limit) {
  return keys_.Refresh(name_space, [&](const ListRequest& list) {
    return inner_->Call(list, limit.OfShare());
  });
}

// --- What there is ----------------------------------------------------------

absl::StatusOr<InitReply> SplittingConnection::CreateKeys(
    const InitRequest& request, const ClusterPlacement& placement,
    const Limit& limit) {
  std::vector<std::string> removed;
  ASSIGN_OR_RETURN(const SplitLayouts layouts,
                   PlanCreation(request, placement, limit, removed));
  if (!removed.empty()) {
    DeleteRequest deletion;
    deletion.set_namespace_(request.name_space);
    deletion.set_namespace_uid(request.namespace_uid);
    deletion.mutable_keys()->Assign(removed.begin(), removed.end());
    deletion.set_allow_missing(true);
    RETURN_IF_ERROR(inner_->Call(deletion, limit.OfShare()).status());
  }
  auto reply = MakeBy(layouts, request, limit.OfShare());
  // A created key, perhaps in part, is known no more as it was.
  if (!layouts.empty()) keys_.Forget(request.name_space);
  return reply;
}

absl::StatusOr<SplitLayouts> SplittingConnection::PlanCreation(
    const InitRequest& request, const ClusterPlacement& placement,
    const Limit& limit, std::vector<std::string>& removed) {
  ASSIGN_OR_RETURN(const SplitLayoutsPtr existing,
                   Refresh(request.name_space, limit));
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
      RETURN_IF_ERROR(Replace(entry, *layout, request.on_existing, removed));
    } else if (planned) {
      ASSIGN_OR_RETURN(const bool is_whole,
                       QueryIsWhole(request.name_space, entry.key, limit));
      if (is_whole) continue;
    }
    if (!planned) continue;
    if (!takes_slices) {
      ASSIGN_OR_RETURN(takes_slices,
                       QueryAllowsSlices(request.name_space, limit));
    }
    if (*takes_slices) layouts[entry.key] = *planned;
  }
  return layouts;
}

absl::StatusOr<bool> SplittingConnection::QueryIsWhole(
    const std::string& name_space, const std::string& key, const Limit& limit) {
  StatRequest request = StatOf(name_space, /*uid=*/0);
  request.add_keys(key);
  const absl::Status status = inner_->Call(request, limit.OfShare()).status();
  // The Init tells any other error.
  if (absl::IsNotFound(status) || absl::IsInvalidArgument(status)) return false;
  RETURN_IF_ERROR(status);
  return true;
}

absl::StatusOr<bool> SplittingConnection::QueryAllowsSlices(
    const std::string& name_space, const Limit& limit) {
  DescribeNamespaceRequest request;
  request.set_namespace_(name_space);
  ASSIGN_OR_RETURN(const DescribeNamespaceReply reply,
                   inner_->Call(request, limit.OfShare()));
  const NamespaceStatus& status = reply.status();
  ASSIGN_OR_RETURN(const NamespaceConfig config, FromProto(status.config()));
  return !config.gradient_guard.is_on() && !NeedsWholeKeys(config.rule.name) &&
         absl::c_none_of(status.rules(), [](const v1::RuleBinding& binding) {
           return NeedsWholeKeys(binding.rule().name());
         });
}

absl::Status SplittingConnection::CheckTakesRule(const SetRuleRequest& request,
                                                 const Limit& limit) {
  if (!NeedsWholeKeys(request.rule().name())) return absl::OkStatus();
  // The servers tell any other error.
  if (request.key_pattern().size() > kMaxPatternBytes) return absl::OkStatus();
  ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                   Refresh(request.namespace_(), limit));
  const Glob glob(request.key_pattern());
  for (const auto& [key, layout] : *layouts) {
    if (!request.key_pattern().empty() && !glob.Matches(key)) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("key \"", key, "\": ", request.rule().name(),
                     ": expected whole keys, got one in slices"));
  }
  return absl::OkStatus();
}

absl::Status SplittingConnection::CheckTakesGuard(
    const UpdateNamespaceRequest& request, const Limit& limit) {
  const bool sets_guard = absl::c_any_of(
      request.update_mask().paths(), [](const std::string& path) {
        return absl::StartsWith(path, "gradient_guard");
      });
  if (!sets_guard) return absl::OkStatus();
  ASSIGN_OR_RETURN(const NamespaceConfig config, KnownConfig(request.config()));
  if (!config.gradient_guard.is_on()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                   Refresh(request.namespace_(), limit));
  if (layouts->empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "gradient_guard: expected none in a namespace that has key \"",
      layouts->begin()->first, "\" in slices, got one"));
}

absl::StatusOr<DeleteReply> SplittingConnection::Delete(
    const DeleteRequest& request, const Limit& limit) {
  ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                   Refresh(request.namespace_(), limit));
  if (!NamesOneOf(*layouts, request)) {
    return inner_->Call(request, limit.OfShare());
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
  absl::StatusOr<DeleteReply> reply = inner_->Call(made, limit.OfShare());
  keys_.Forget(request.namespace_());
  if (!reply.ok()) return reply;
  const uint64_t num_deleted = reply->num_deleted();
  reply->set_num_deleted(num_deleted - std::min(num_deleted, num_more));
  return reply;
}

absl::StatusOr<StatReply> SplittingConnection::StatThoseWhole(
    const SplitLayouts& layouts, const StatRequest& request,
    const Limit& limit) {
  auto reply = MakeBy(layouts, request, limit.OfShare());
  if (ReasonOf(reply.status()) != Reason::kKeyNotFound) return reply;
  StatReply found;
  for (const std::string& key : request.keys()) {
    StatRequest one = StatOf(request.namespace_(), request.namespace_uid());
    one.add_keys(key);
    reply = MakeBy(layouts, one, limit.OfShare());
    if (ReasonOf(reply.status()) == Reason::kKeyNotFound) continue;
    RETURN_IF_ERROR(reply.status());
    MoveAll(*reply->mutable_keys(), *found.mutable_keys());
  }
  return found;
}

absl::StatusOr<ListReply> SplittingConnection::List(const ListRequest& request,
                                                    const Limit& limit) {
  ASSIGN_OR_RETURN(ListReply page, inner_->Call(request, limit.OfShare()));
  // A caller who asks for slices gets them.
  if (absl::StartsWith(request.prefix(), kSliceMark)) return page;
  EndBeforeSlices(page);
  ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                   Refresh(request.namespace_(), limit));
  StatRequest split = StatOf(request.namespace_(), request.namespace_uid());
  for (std::string& key : KeysOnPage(*layouts, request, page)) {
    split.add_keys(std::move(key));
  }
  if (split.keys().empty()) return page;
  ASSIGN_OR_RETURN(StatReply statuses, StatThoseWhole(*layouts, split, limit));
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
  return page;
}

}  // namespace tensorkv
