#include "service/metrics/store_collectable.h"

#include <cstdint>
#include <iterator>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"
#include "service/metrics/readings.h"

namespace tensorkv {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Summaries = std::vector<NamespaceSummary>;
using Labels = std::vector<ClientMetric::Label>;

constexpr const char* kWaitReasons[] = {
    "key",     "version", "update", "round",    "staleness",
    "barrier", "attempt", "rules",  "snapshot", "change"};
static_assert(std::size(kWaitReasons) == kNumWaitReasons);

// Takes a sample of a namespace: its value, and its labels beside that of the
// namespace.
using Add = absl::FunctionRef<void(double value, Labels labels)>;

MetricFamily FamilyOf(
    const Summaries& statuses, const char* name, const char* help,
    MetricType type,
    absl::FunctionRef<void(const NamespaceSummary& status, Add add)> samples) {
  MetricFamily family{name, help, type, {}};
  for (const NamespaceSummary& status : statuses) {
    samples(status, [&](double value, Labels labels) {
      labels.insert(labels.begin(), {"namespace", status.name});
      AddMetric(value, std::move(labels), family);
    });
  }
  return family;
}

void AddMemory(const NamespaceSummary& status, Add add) {
  add(status.memory.values, {{"use", "values"}});
  add(status.memory.state, {{"use", "state"}});
  add(status.memory.contributions, {{"use", "contributions"}});
  add(status.memory.metadata, {{"use", "metadata"}});
}

void AddDeviceMemory(const NamespaceSummary& status, Add add) {
  for (const DeviceMemoryUse& on : status.device_memory) {
    add(on.memory.values, {{"use", "values"}, {"device", on.device}});
    add(on.memory.state, {{"use", "state"}, {"device", on.device}});
    add(on.memory.contributions,
        {{"use", "contributions"}, {"device", on.device}});
  }
}

void AddRefused(const NamespaceSummary& status, Add add) {
  add(status.contributions_late, {{"reason", "late"}});
  add(status.contributions_duplicate, {{"reason", "duplicate"}});
  add(status.contributions_fenced, {{"reason", "fenced"}});
}

void AddGuarded(const NamespaceSummary& status, Add add) {
  for (const GuardCounts& counts : status.guard_counts) {
    const std::string rank =
        counts.rank ? std::to_string(*counts.rank) : "none";
    for (const auto& [reason, count] :
         {std::pair("not_finite", counts.not_finite),
          std::pair("too_large", counts.too_large)}) {
      if (count > 0) add(count, {{"rank", rank}, {"reason", reason}});
    }
  }
}

void AddWaiting(const NamespaceSummary& status, Add add) {
  for (const WaitStatus& wait : status.waits) {
    if (wait.calls_waiting + wait.calls_ended == 0) continue;
    add(wait.calls_waiting,
        {{"reason", kWaitReasons[static_cast<size_t>(wait.reason)]}});
  }
}

void AddChanges(const NamespaceSummary& status, Add add) {
  add(status.changes.unchanged, {{"as", "unchanged"}});
  add(status.changes.deltas, {{"as", "delta"}});
  add(status.changes.wholes, {{"as", "whole"}});
}

void AddChangeBytes(const NamespaceSummary& status, Add add) {
  add(status.changes.delta_bytes, {{"as", "delta"}});
  add(status.changes.whole_bytes, {{"as", "whole"}});
}

// Sum and count, without quantiles.
MetricFamily WaitedFamily(const Summaries& statuses) {
  MetricFamily family{"tensorkv_waited_seconds",
                      "How long calls have waited, by what they waited for "
                      "last.",
                      MetricType::Summary,
                      {}};
  for (const NamespaceSummary& status : statuses) {
    for (const WaitStatus& wait : status.waits) {
      if (wait.calls_waiting + wait.calls_ended == 0) continue;
      ClientMetric& metric = family.metric.emplace_back();
      metric.label = {
          {"namespace", status.name},
          {"reason", kWaitReasons[static_cast<size_t>(wait.reason)]}};
      metric.summary.sample_count = wait.calls_ended;
      metric.summary.sample_sum = absl::ToDoubleSeconds(wait.waited);
    }
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> StoreCollectable::Collect() const {
  const Summaries statuses = namespaces_.Summaries();
  const auto family = [&](const char* name, const char* help, MetricType type,
                          auto samples) {
    return FamilyOf(statuses, name, help, type, samples);
  };
  const auto number = [&](const char* name, const char* help, MetricType type,
                          uint64_t NamespaceSummary::*field) {
    return family(name, help, type,
                  [field](const NamespaceSummary& status, Add add) {
                    add(status.*field, {});
                  });
  };
  return {
      number("tensorkv_keys", "Keys that exist.", MetricType::Gauge,
             &NamespaceSummary::num_keys),
      number("tensorkv_snapshots", "Named snapshots that can be read.",
             MetricType::Gauge, &NamespaceSummary::num_snapshots),
      family("tensorkv_memory_bytes", "Bytes held, by use.", MetricType::Gauge,
             AddMemory),
      family("tensorkv_retained_bytes",
             "Bytes that only snapshots need, beside the budget.",
             MetricType::Gauge,
             [](const NamespaceSummary& status, Add add) {
               add(status.memory.retained, {});
             }),
      family("tensorkv_namespace_budget_bytes", "Bound on the bytes held.",
             MetricType::Gauge,
             [](const NamespaceSummary& status, Add add) {
               add(status.budget_bytes, {});
             }),
      family("tensorkv_device_memory_bytes", "Bytes held on the GPU, by use.",
             MetricType::Gauge, AddDeviceMemory),
      number("tensorkv_updates_total", "Updates applied to values.",
             MetricType::Counter, &NamespaceSummary::updates_applied),
      number("tensorkv_rounds_open", "Rounds that wait for contributions.",
             MetricType::Gauge, &NamespaceSummary::rounds_open),
      number("tensorkv_rounds_closed_total", "Rounds applied.",
             MetricType::Counter, &NamespaceSummary::rounds_closed),
      number("tensorkv_rounds_failed_total", "Rounds dropped.",
             MetricType::Counter, &NamespaceSummary::rounds_failed),
      number("tensorkv_calls_waiting", "Calls that wait.", MetricType::Gauge,
             &NamespaceSummary::calls_waiting),
      family("tensorkv_waiting", "Calls that wait now, by what they wait for.",
             MetricType::Gauge, AddWaiting),
      WaitedFamily(statuses),
      family("tensorkv_workers_live", "Workers whose lease has not ended.",
             MetricType::Gauge,
             [](const NamespaceSummary& status, Add add) {
               add(status.live_workers, {});
             }),
      number("tensorkv_lease_expirations_total", "Workers that were lost.",
             MetricType::Counter, &NamespaceSummary::lease_expirations),
      family("tensorkv_contributions_refused_total",
             "Contributions that came too late, twice, or from no member.",
             MetricType::Counter, AddRefused),
      family("tensorkv_contributions_guarded_total",
             "Contributions in which the gradient guard has found something.",
             MetricType::Counter, AddGuarded),
      number("tensorkv_changes_told_total", "Changes that watches were told.",
             MetricType::Counter, &NamespaceSummary::changes_told),
      number("tensorkv_watches_compacted_total",
             "Watches that were told to begin anew.", MetricType::Counter,
             &NamespaceSummary::watches_compacted),
      number("tensorkv_change_log_bytes",
             "What is remembered for watches, beside the budgets.",
             MetricType::Gauge, &NamespaceSummary::change_log_bytes),
      number("tensorkv_slowest_worker_lag_steps",
             "Steps between the fastest worker and the slowest.",
             MetricType::Gauge, &NamespaceSummary::slowest_lag),
      family("tensorkv_changes_sent_total",
             "Values of pulls that ask for what has changed.",
             MetricType::Counter, AddChanges),
      family("tensorkv_changes_sent_bytes_total",
             "Bytes of such values, by what was sent.", MetricType::Counter,
             AddChangeBytes),
  };
}

}  // namespace tensorkv
