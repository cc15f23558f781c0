// What the configuration of a namespace may say of its mode.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "service/store/keyspace/push/push_mode.h"

namespace tensorkv {
namespace {

// Bounds what a key's open rounds take besides their contributions.
constexpr uint32_t kMaxOpenRounds = 64;
// A median compares each contribution to an element with every other, so more
// workers would hold the threads of all keys for long.
constexpr uint32_t kMaxAveragedWorkers = 128;
constexpr absl::Duration kMaxQuorumGrace = absl::Hours(1);
// Clients of federated rounds train for days.
constexpr absl::Duration kMaxRoundTimeout = absl::Hours(168);

// A field that is set although the mode does not use it would promise what does
// not happen.
absl::Status CheckFieldsAreUsed(const NamespaceConfig& config) {
  struct Field {
    absl::string_view name;
    bool is_set;
    bool is_used;
  };
  const bool is_sync = config.mode == Mode::kSync;
  const bool is_bounded = config.mode == Mode::kBounded;
  const bool is_group = is_sync || is_bounded;
  const Field fields[] = {
      {"num_workers", config.num_workers != 0, is_group},
      {"max_workers", config.max_workers != 0, is_group},
      {"staleness", config.staleness != 0, is_bounded},
      {"on_worker_loss", config.on_worker_loss != OnWorkerLoss::kFail,
       is_group},
      {"rescale_partial_rounds", config.rescale_partial_rounds, is_sync},
      {"quorum", config.quorum != 0, is_sync},
      {"quorum_grace", config.quorum_grace != absl::ZeroDuration(), is_sync},
      {"max_open_rounds", config.max_open_rounds != 0, is_sync},
      {"aggregation", !Adds(config.aggregation), is_sync},
      {"trim_fraction", config.trim_fraction != 0, is_sync},
      {"sum_order", config.sum_order != SumOrder::kRank, is_sync},
      {"round_timeout", config.round_timeout != absl::ZeroDuration(), is_sync},
      {"late", config.late != Late::kRefuse, is_sync},
      {"staleness_decay", config.staleness_decay != 0, is_sync},
      {"mirrored", config.mirrored, is_sync}};
  for (const Field& field : fields) {
    if (!field.is_set || field.is_used) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(field.name, ": expected none in a namespace of mode ",
                     is_sync      ? "sync"
                     : is_bounded ? "bounded"
                                  : "async",
                     ", which does not use it, got one"));
  }
  return absl::OkStatus();
}

absl::Status CheckGroup(const NamespaceConfig& config) {
  if (config.num_workers == 0 || config.num_workers > kMaxWorkers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "num_workers of a sync or bounded namespace: expected 1 to ",
        kMaxWorkers, ", got ", config.num_workers));
  }
  if (config.max_workers > kMaxWorkers ||
      (config.max_workers > 0 && config.max_workers < config.num_workers)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "max_workers: expected num_workers, which is ", config.num_workers,
        ", to ", kMaxWorkers, ", got ", config.max_workers));
  }
  return absl::OkStatus();
}

// Checks what every aggregation but the sum asks for.
absl::Status CheckAveraging(const NamespaceConfig& config) {
  if (config.rescale_partial_rounds) {
    return absl::InvalidArgumentError(
        "rescale_partial_rounds: expected none with an aggregation that is no "
        "sum, got one");
  }
  const uint32_t most = std::max(config.num_workers, config.max_workers);
  if (most <= kMaxAveragedWorkers || Adds(config.aggregation)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("aggregation: expected a sum or a mean, or at most ",
                   kMaxAveragedWorkers, " workers, got ", most));
}

absl::Status CheckAggregation(const NamespaceConfig& config) {
  if (config.sum_order != SumOrder::kRank && !Adds(config.aggregation)) {
    return absl::InvalidArgumentError(
        "sum_order: expected the order of ranks but for a sum or a mean, got "
        "the order of arrival");
  }
  if (config.aggregation != Aggregation::kSum) {
    RETURN_IF_ERROR(CheckAveraging(config));
  }
  if (config.aggregation != Aggregation::kTrimmedMean) {
    if (config.trim_fraction == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        "trim_fraction: expected none but for a trimmed mean, got one");
  }
  if (config.trim_fraction >= 0 && config.trim_fraction < 0.5) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("trim_fraction: expected at least 0 and below 0.5, got ",
                   config.trim_fraction));
}

absl::Status CheckTime(absl::string_view name, absl::Duration time,
                       absl::Duration most) {
  if (time >= absl::ZeroDuration() && time <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(name, ": expected 0 to ", absl::FormatDuration(most),
                   ", got ", absl::FormatDuration(time)));
}

absl::Status CheckLate(const NamespaceConfig& config) {
  const bool carries = config.late == Late::kCarry;
  if (carries && (!Adds(config.aggregation) || config.rescale_partial_rounds)) {
    return absl::InvalidArgumentError(
        "late: expected none to be carried but for a sum that is not rescaled, "
        "or a mean, got carry");
  }
  const double decay = config.staleness_decay;
  if (decay == 0) return absl::OkStatus();
  if (!carries || config.aggregation != Aggregation::kMean) {
    return absl::InvalidArgumentError(
        "staleness_decay: expected none but for a mean that carries what is "
        "late, got one");
  }
  if (decay > 0 && decay <= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "staleness_decay: expected above 0 and at most 1, got ", decay));
}

absl::Status CheckRounds(const NamespaceConfig& config) {
  if (config.max_open_rounds > kMaxOpenRounds) {
    return absl::InvalidArgumentError(
        absl::StrCat("max_open_rounds: expected at most ", kMaxOpenRounds,
                     ", got ", config.max_open_rounds));
  }
  const uint32_t most = std::max(config.num_workers, config.max_workers);
  if (config.quorum > most) {
    return absl::InvalidArgumentError(absl::StrCat(
        "quorum: expected at most ", most, " workers, got ", config.quorum));
  }
  RETURN_IF_ERROR(
      CheckTime("quorum_grace", config.quorum_grace, kMaxQuorumGrace));
  RETURN_IF_ERROR(
      CheckTime("round_timeout", config.round_timeout, kMaxRoundTimeout));
  return CheckLate(config);
}

// Checks that the configuration has nothing that servers that sum together do
// without.
absl::Status CheckMirrored(const NamespaceConfig& config) {
  const bool is_simple = config.max_workers <= config.num_workers &&
                         config.quorum == 0 && !config.rescale_partial_rounds &&
                         config.on_worker_loss == OnWorkerLoss::kFail &&
                         config.sum_order == SumOrder::kRank &&
                         config.round_timeout == absl::ZeroDuration() &&
                         config.late == Late::kRefuse &&
                         Adds(config.aggregation);
  if (!config.mirrored || is_simple) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "mirrored: expected a group of num_workers that fails when a worker is "
      "lost, whose rounds are whole sums or means in rank order, got "
      "max_workers, quorum, rescale_partial_rounds, on_worker_loss, "
      "aggregation, sum_order, round_timeout or late");
}

}  // namespace

WorkerGroupOptions PushMode::GroupOf(const NamespaceConfig& config) {
  // An async namespace takes whoever comes.
  if (config.mode == Mode::kAsync) {
    return {.max_workers = kMaxWorkers, .counts_alone = true};
  }
  const bool is_whole = config.max_workers <= config.num_workers &&
                        config.on_worker_loss == OnWorkerLoss::kFail;
  return {.min_workers = config.num_workers,
          .max_workers = std::max(config.num_workers, config.max_workers),
          .on_worker_loss = config.on_worker_loss,
          .awaits_left = is_whole && config.mode == Mode::kSync};
}

absl::Status PushMode::CheckConfig(const NamespaceConfig& config) {
  RETURN_IF_ERROR(CheckFieldsAreUsed(config));
  if (config.mode == Mode::kAsync) return absl::OkStatus();
  RETURN_IF_ERROR(CheckGroup(config));
  if (config.mode == Mode::kBounded) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRounds(config));
  RETURN_IF_ERROR(CheckAggregation(config));
  return CheckMirrored(config);
}

}  // namespace tensorkv
