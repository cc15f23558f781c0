#include "bench/harness/records_json.h"

#include "nlohmann/json.hpp"

namespace tensorkv::bench {
namespace {

using Json = nlohmann::ordered_json;

// 0 stands for what was not measured.
Json NumberOrNull(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

// Every field, so that a reader need not ask which there are.
Json EmptyRecord() {
  Json record;
  for (const char* field :
       {"name", "bytes", "in_flight", "ours_gbps", "reference",
        "reference_gbps", "ratio", "cpu_s_per_gb", "p50_us", "p99_us",
        "keys_per_s", "reference_keys_per_s", "reference_p50_us",
        "reference_p99_us", "reference_cpu_s_per_gb"}) {
    record[field] = nullptr;
  }
  return record;
}

Json RecordOf(const Row& row) {
  Json record = EmptyRecord();
  record["name"] = row.name;
  record["bytes"] = row.bytes;
  record["in_flight"] = row.in_flight;
  record["ours_gbps"] = NumberOrNull(row.ours.gigabytes_per_second);
  record["cpu_s_per_gb"] = NumberOrNull(row.ours.cpu_seconds_per_gigabyte);
  record["p50_us"] = NumberOrNull(row.ours.p50_microseconds);
  record["p99_us"] = NumberOrNull(row.ours.p99_microseconds);
  record["keys_per_s"] = NumberOrNull(row.ours.keys_per_second);
  return record;
}

Json RecordOf(const Row& row, const Reference& reference) {
  const Measurement& other = reference.measurement;
  Json record = RecordOf(row);
  record["reference"] = reference.name;
  record["reference_gbps"] = NumberOrNull(other.gigabytes_per_second);
  record["ratio"] = NumberOrNull(SpeedRatio(row.ours, other));
  record["reference_keys_per_s"] = NumberOrNull(other.keys_per_second);
  record["reference_p50_us"] = NumberOrNull(other.p50_microseconds);
  record["reference_p99_us"] = NumberOrNull(other.p99_microseconds);
  record["reference_cpu_s_per_gb"] =
      NumberOrNull(other.cpu_seconds_per_gigabyte);
  return record;
}

Json RecordOf(const Figure& figure) {
  Json record = EmptyRecord();
  record["name"] = figure.name;
  record["value"] = figure.value;
  record["unit"] = figure.unit;
  return record;
}

}  // namespace

std::string RecordsJson(const std::vector<Section>& sections) {
  Json records = Json::array();
  for (const Section& section : sections) {
    for (const Row& row : section.rows) {
      if (row.references.empty()) records.push_back(RecordOf(row));
      for (const Reference& reference : row.references) {
        records.push_back(RecordOf(row, reference));
      }
    }
    for (const Figure& figure : section.figures) {
      records.push_back(RecordOf(figure));
    }
  }
  return records.dump(2) + "\n";
}

}  // namespace tensorkv::bench
