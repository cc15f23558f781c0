// Large tensors, in slices on several servers.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "client/cluster/cluster_keys.h"
#include "client/cluster/read_layouts.h"
#include "client/cluster/request_entries.h"
#include "client/cluster/split_layout.h"
#include "contract/proto_codec.h"
#include "contract/reason.h"
#include "contract/retry_delay.h"
#include "contract/row_ids.h"
#include "contract/slices.h"

namespace tensorkv {
namespace {

// Bounds how long a call waits for a key that does not exist before it looks
// whether it is in slices.
constexpr absl::Duration kLongestWait = absl::Seconds(1);

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

}  // namespace

Task<absl::StatusOr<SplitLayoutsPtr>> ClusterKeys::Refresh(
    const std::string& name_space, const CallLimit& limit) {
  ListRequest request;
  request.set_namespace_(name_space);
  const auto list = [&](const ListRequest& page) {
    return ListStored(page, limit);
  };
  Task<absl::StatusOr<SplitLayoutsPtr>> read =
      ReadLayouts(std::move(request), list);
  CO_ASSIGN_OR_RETURN(SplitLayoutsPtr layouts, co_await read);
  namespaces_.LearnLayouts(name_space, layouts);
  if (layouts == nullptr) co_return std::make_shared<SplitLayouts>();
  co_return layouts;
}

// Values go only once all keys are there: what takes long to receive would
// else be received again and again for the sake of a key that is not.
Task<absl::StatusOr<SplitLayoutsPtr>> ClusterKeys::AwaitKeys(
    const StatRequest& stat, SplitLayoutsPtr layouts, const CallLimit& limit) {
  CallLimit of_stat = limit;
  of_stat.destinations = {};
  for (;;) {
    const absl::StatusOr<StatReply> found =
        co_await MakeBy(layouts.get(), stat, of_stat);
    const absl::Status& status = found.status();
    if (absl::IsDeadlineExceeded(status)) co_return status;
    // The call tells any other error.
    if (ReasonOf(status) != Reason::kKeyNotFound) co_return layouts;
    const std::string missing = ErrorInfoOf(status)->metadata["key"];
    const absl::Status waited = co_await AwaitKey(stat, missing, limit);
    const bool may_come = waited.ok() || absl::IsDeadlineExceeded(waited) ||
                          absl::IsUnavailable(waited) ||
                          ReasonOf(waited) == Reason::kKeyNotFound ||
                          RetryDelayOf(waited);
    if (!may_come || limit.TimeLeft() <= absl::ZeroDuration()) {
      co_return waited.ok() ? status : waited;
    }
    CO_ASSIGN_OR_RETURN(layouts, co_await Refresh(stat.namespace_(), limit));
  }
}

// Reads none of its rows, so that nothing but the answer has to come.
Task<absl::Status> ClusterKeys::AwaitKey(const StatRequest& stat,
                                         const std::string& key,
                                         const CallLimit& limit) {
  PullRowsRequest wait;
  wait.name_space = stat.namespace_();
  wait.namespace_uid = stat.namespace_uid();
  wait.wait_for_keys = true;
  PullEntry& entry = wait.entries.emplace_back();
  entry.key = key;
  CO_ASSIGN_OR_RETURN(Tensor none, Tensor::Allocate(DType::kI64, {0}));
  CO_ASSIGN_OR_RETURN(entry.rows, RowIds::Create(std::move(none)));
  CallLimit of_wait = limit.Within(kLongestWait);
  of_wait.destinations = {};
  const auto none_read = co_await MakeBy(/*layouts=*/nullptr, wait, of_wait);
  co_return none_read.status();
}

Task<absl::StatusOr<InitReply>> ClusterKeys::CreateKeys(
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
    CO_RETURN_IF_ERROR(co_await MakeBy(/*layouts=*/nullptr, deletion, limit));
  }
  auto reply = co_await MakeBy(&layouts, request, limit);
  // A created key, perhaps in part, is known no more as it was.
  if (!layouts.empty()) namespaces_.LearnLayouts(request.name_space, nullptr);
  co_return reply;
}

Task<absl::StatusOr<SplitLayouts>> ClusterKeys::PlanCreation(
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
    if (const SplitLayout* const layout =
            FindLayout(existing.get(), entry.key)) {
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

Task<absl::StatusOr<bool>> ClusterKeys::QueryIsWhole(
    const std::string& name_space, const std::string& key,
    const CallLimit& limit) {
  StatRequest request;
  request.set_namespace_(name_space);
  request.add_keys(key);
  const absl::StatusOr<StatReply> reply =
      co_await MakeBy(/*layouts=*/nullptr, request, limit);
  // The Init tells any other error.
  const bool is_missing = absl::IsNotFound(reply.status()) ||
                          absl::IsInvalidArgument(reply.status());
  if (is_missing) co_return false;
  CO_RETURN_IF_ERROR(reply.status());
  co_return true;
}

Task<absl::StatusOr<bool>> ClusterKeys::QueryAllowsSlices(
    const std::string& name_space, const CallLimit& limit) {
  DescribeNamespaceRequest request;
  request.set_namespace_(name_space);
  CO_ASSIGN_OR_RETURN(const DescribeNamespaceReply reply,
                      co_await servers_.AtHome(request, limit));
  const NamespaceStatus& status = reply.status();
  CO_ASSIGN_OR_RETURN(const NamespaceConfig config, FromProto(status.config()));
  co_return !config.gradient_guard.is_on() &&
      !NeedsWholeKeys(config.rule.name) &&
      absl::c_none_of(status.rules(), [](const v1::RuleBinding& binding) {
        return NeedsWholeKeys(binding.rule().name());
      });
}

Task<absl::Status> ClusterKeys::CheckTakes(const SetRuleRequest& request,
                                           const CallLimit& limit) {
  if (!NeedsWholeKeys(request.rule().name())) co_return absl::OkStatus();
  // The servers tell any other error.
  if (request.key_pattern().size() > kMaxPatternBytes) {
    co_return absl::OkStatus();
  }
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  if (placement->split_bytes == 0) co_return absl::OkStatus();
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

Task<absl::Status> ClusterKeys::CheckTakes(
    const UpdateNamespaceRequest& request, const CallLimit& limit) {
  const bool sets_guard = absl::c_any_of(
      request.update_mask().paths(), [](const std::string& path) {
        return absl::StartsWith(path, "gradient_guard");
      });
  if (!sets_guard) co_return absl::OkStatus();
  CO_ASSIGN_OR_RETURN(const NamespaceConfig config,
                      KnownConfig(request.config()));
  if (!config.gradient_guard.is_on()) co_return absl::OkStatus();
  CO_ASSIGN_OR_RETURN(const PlacementPtr placement,
                      co_await servers_.Placement(limit));
  if (placement->split_bytes == 0) co_return absl::OkStatus();
  CO_ASSIGN_OR_RETURN(const SplitLayoutsPtr layouts,
                      co_await Refresh(request.namespace_(), limit));
  if (layouts->empty()) co_return absl::OkStatus();
  co_return absl::InvalidArgumentError(absl::StrCat(
      "gradient_guard: expected none in a namespace that has key \"",
      layouts->begin()->first, "\" in slices, got one"));
}

}  // namespace tensorkv
