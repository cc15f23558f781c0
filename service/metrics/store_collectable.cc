#include "service/metrics/store_collectable.h"

#include <cstdint>
#include <string>
#include <utility>

#include "absl/time/time.h"

namespace tensorkv {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Statuses = std::vector<NamespaceStatus>;
using Field = uint64_t NamespaceStatus::*;

ClientMetric Sample(const NamespaceStatus& status, MetricType type,
                    uint64_t value) {
  ClientMetric metric;
  metric.label.push_back({"namespace", status.name});
  (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) =
      static_cast<double>(value);
  return metric;
}

MetricFamily FamilyOf(const Statuses& statuses, std::string name,
                      std::string help, MetricType type, Field field) {
  MetricFamily family{std::move(name), std::move(help), type, {}};
  for (const NamespaceStatus& status : statuses) {
    family.metric.push_back(Sample(status, type, status.*field));
  }
  return family;
}

void AddUse(const NamespaceStatus& status, const char* use, uint64_t bytes,
            MetricFamily& family) {
  family.metric.push_back(Sample(status, MetricType::Gauge, bytes));
  family.metric.back().label.push_back({"use", use});
}

MetricFamily MemoryFamily(const Statuses& statuses) {
  MetricFamily family{
      "tensorkv_memory_bytes", "Bytes held, by use.", MetricType::Gauge, {}};
  for (const NamespaceStatus& status : statuses) {
    AddUse(status, "values", status.memory.values, family);
    AddUse(status, "state", status.memory.state, family);
    AddUse(status, "contributions", status.memory.contributions, family);
    AddUse(status, "metadata", status.memory.metadata, family);
  }
  return family;
}

MetricFamily DeviceMemoryFamily(const Statuses& statuses) {
  MetricFamily family{"tensorkv_device_memory_bytes",
                      "Bytes held on the GPU, by use.",
                      MetricType::Gauge,
                      {}};
  const auto add = [&](const NamespaceStatus& status, const DeviceMemoryUse& on,
                       const char* use, uint64_t bytes) {
    AddUse(status, use, bytes, family);
    family.metric.back().label.push_back({"device", on.device});
  };
  for (const NamespaceStatus& status : statuses) {
    for (const DeviceMemoryUse& on : status.device_memory) {
      add(status, on, "values", on.memory.values);
      add(status, on, "state", on.memory.state);
      add(status, on, "contributions", on.memory.contributions);
    }
  }
  return family;
}

MetricFamily RefusedFamily(const Statuses& statuses) {
  MetricFamily family{"tensorkv_contributions_refused_total",
                      "Contributions that came too late, twice, or from no "
                      "member.",
                      MetricType::Counter,
                      {}};
  const auto add = [&](const NamespaceStatus& status, const char* reason,
                       uint64_t count) {
    family.metric.push_back(Sample(status, MetricType::Counter, count));
    family.metric.back().label.push_back({"reason", reason});
  };
  for (const NamespaceStatus& status : statuses) {
    add(status, "late", status.contributions_late);
    add(status, "duplicate", status.contributions_duplicate);
    add(status, "fenced", status.contributions_fenced);
  }
  return family;
}

MetricFamily GuardedFamily(const Statuses& statuses) {
  MetricFamily family{"tensorkv_contributions_guarded_total",
                      "Contributions in which the gradient guard has found "
                      "something.",
                      MetricType::Counter,
                      {}};
  const auto add = [&](const NamespaceStatus& status, const GuardCounts& counts,
                       const char* reason, uint64_t count) {
    if (count == 0) return;
    family.metric.push_back(Sample(status, MetricType::Counter, count));
    std::vector<ClientMetric::Label>& labels = family.metric.back().label;
    labels.push_back(
        {"rank", counts.rank ? std::to_string(*counts.rank) : "none"});
    labels.push_back({"reason", reason});
  };
  for (const NamespaceStatus& status : statuses) {
    for (const GuardCounts& counts : status.guard_counts) {
      add(status, counts, "not_finite", counts.not_finite);
      add(status, counts, "too_large", counts.too_large);
    }
  }
  return family;
}

MetricFamily BudgetFamily(const Statuses& statuses) {
  MetricFamily family{"tensorkv_namespace_budget_bytes",
                      "Bound on the bytes held.",
                      MetricType::Gauge,
                      {}};
  for (const NamespaceStatus& status : statuses) {
    family.metric.push_back(
        Sample(status, MetricType::Gauge, status.config.budget_bytes));
  }
  return family;
}

MetricFamily LiveWorkersFamily(const Statuses& statuses) {
  MetricFamily family{"tensorkv_workers_live",
                      "Workers whose lease has not ended.",
                      MetricType::Gauge,
                      {}};
  for (const NamespaceStatus& status : statuses) {
    family.metric.push_back(
        Sample(status, MetricType::Gauge, status.live_workers));
  }
  return family;
}

const char* NameOf(WaitReason reason) {
  switch (reason) {
    case WaitReason::kKey:
      return "key";
    case WaitReason::kVersion:
      return "version";
    case WaitReason::kUpdate:
      return "update";
    case WaitReason::kRound:
      return "round";
    case WaitReason::kStaleness:
      return "staleness";
    case WaitReason::kBarrier:
      return "barrier";
    case WaitReason::kAttempt:
      break;
  }
  return "attempt";
}

MetricFamily WaitingFamily(const Statuses& statuses) {
  MetricFamily family{"tensorkv_waiting",
                      "Calls that wait now, by what they wait for.",
                      MetricType::Gauge,
                      {}};
  for (const NamespaceStatus& status : statuses) {
    for (const WaitStatus& wait : status.waits) {
      if (wait.calls_waiting + wait.calls_ended == 0) continue;
      family.metric.push_back(
          Sample(status, MetricType::Gauge, wait.calls_waiting));
      family.metric.back().label.push_back({"reason", NameOf(wait.reason)});
    }
  }
  return family;
}

// Sum and count, without quantiles.
MetricFamily WaitedFamily(const Statuses& statuses) {
  MetricFamily family{"tensorkv_waited_seconds",
                      "How long calls have waited, by what they waited for "
                      "last.",
                      MetricType::Summary,
                      {}};
  for (const NamespaceStatus& status : statuses) {
    for (const WaitStatus& wait : status.waits) {
      ClientMetric& metric = family.metric.emplace_back();
      metric.label = {{"namespace", status.name},
                      {"reason", NameOf(wait.reason)}};
      metric.summary.sample_count = wait.calls_ended;
      metric.summary.sample_sum = absl::ToDoubleSeconds(wait.waited);
    }
  }
  return family;
}

}  // namespace

std::vector<MetricFamily> StoreCollectable::Collect() const {
  const Statuses statuses = namespaces_.Summaries();
  const auto family = [&](const char* name, const char* help, MetricType type,
                          Field field) {
    return FamilyOf(statuses, name, help, type, field);
  };
  return {
      family("tensorkv_keys", "Keys that exist.", MetricType::Gauge,
             &NamespaceStatus::num_keys),
      MemoryFamily(statuses),
      BudgetFamily(statuses),
      DeviceMemoryFamily(statuses),
      family("tensorkv_updates_total", "Updates applied to values.",
             MetricType::Counter, &NamespaceStatus::updates_applied),
      family("tensorkv_rounds_open", "Rounds that wait for contributions.",
             MetricType::Gauge, &NamespaceStatus::rounds_open),
      family("tensorkv_rounds_closed_total", "Rounds applied.",
             MetricType::Counter, &NamespaceStatus::rounds_closed),
      family("tensorkv_rounds_failed_total", "Rounds dropped.",
             MetricType::Counter, &NamespaceStatus::rounds_failed),
      family("tensorkv_calls_waiting", "Calls that wait.", MetricType::Gauge,
             &NamespaceStatus::calls_waiting),
      WaitingFamily(statuses),
      WaitedFamily(statuses),
      LiveWorkersFamily(statuses),
      family("tensorkv_lease_expirations_total", "Workers that were lost.",
             MetricType::Counter, &NamespaceStatus::lease_expirations),
      RefusedFamily(statuses),
      GuardedFamily(statuses),
      family("tensorkv_slowest_worker_lag_steps",
             "Steps between the fastest worker and the slowest.",
             MetricType::Gauge, &NamespaceStatus::slowest_lag),
  };
}

}  // namespace tensorkv
