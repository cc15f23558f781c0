#include "service/server/checkpoint_readings.h"

namespace tensorkv {

prometheus::Histogram& AddCheckpointPauses(prometheus::Registry& registry) {
  return prometheus::BuildHistogram()
      .Name("tensorkv_checkpoint_pause_seconds")
      .Help(
          "How long a checkpoint kept the calls of a namespace waiting at a "
          "time.")
      .Register(registry)
      .Add({}, prometheus::Histogram::BucketBoundaries{
                   1e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2, 1e-1});
}

std::vector<Reading> CheckpointReadings(
    absl::Duration interval, std::function<CheckpointCounts()> counts) {
  using prometheus::MetricType;
  return {
      {"tensorkv_checkpoint_interval_seconds",
       "How often a checkpoint is to be made; 0 is never.", MetricType::Gauge,
       [interval] { return absl::ToDoubleSeconds(interval); }},
      {"tensorkv_checkpoint_last_timestamp_seconds",
       "When the last checkpoint, or the one that was restored, was begun; 0 "
       "if there is none.",
       MetricType::Gauge,
       [counts] { return absl::ToUnixSeconds(counts().last_time); }},
      {"tensorkv_checkpoint_last_bytes", "What the last checkpoint takes.",
       MetricType::Gauge, [counts] { return counts().last_bytes; }},
      {"tensorkv_checkpoint_last_written_bytes",
       "What of that was written for it, and not taken over from the one "
       "before; 0 if it was restored.",
       MetricType::Gauge, [counts] { return counts().last_written_bytes; }},
      {"tensorkv_checkpoint_last_duration_seconds",
       "How long the last checkpoint took to write.", MetricType::Gauge,
       [counts] { return absl::ToDoubleSeconds(counts().last_duration); }},
      {"tensorkv_checkpoints_saved_total", "Checkpoints written.",
       MetricType::Counter, [counts] { return counts().saved; }},
      {"tensorkv_checkpoints_failed_total",
       "Checkpoints that could not be written.", MetricType::Counter,
       [counts] { return counts().failed; }},
  };
}

}  // namespace tensorkv
