#include "bench/gpu/updates_suite.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/data_path/peers/workload.h"
#include "bench/gpu/updates.h"

namespace tensorkv::bench::gpu {

std::vector<LargeUpdate> LargeUpdates() {
  const RuleSpec adam = {"adam", {}};
  const RuleSpec momentum = {"sgd", {{"momentum", 0.9}}};
  const RuleSpec sgd = {"sgd", {}};
  return {{"adam/f32", adam, DType::kF32, 1, 0.97},
          {"sgd_momentum/f32", momentum, DType::kF32, 1, 0.97},
          {"sum_of_8_sgd/f32", sgd, DType::kF32, 8, 0.97},
          {"adam/bf16_master", adam, DType::kBF16, 1, 0.93}};
}

namespace {

constexpr char kDeviceCopy[] = "device copy";

void MeasureLarge(const LargeUpdate& update, Backend* backend,
                  PlainCopies* copies, const Sizes& sizes, RowRunner* runner,
                  Section* section) {
  const int64_t num_elements = sizes.update_elements;
  const int64_t bytes = num_elements * SizeOf(update.dtype);
  const std::string name =
      absl::StrCat("update/", update.name, "/", ByteText(bytes));
  if (!runner->Wants(name)) return;
  section->goals.push_back(
      {.name = name, .bound = update.goal, .reference = kDeviceCopy});
  absl::StatusOr<std::shared_ptr<const Updates>> updates =
      Updates::Create(backend, update.rule, update.ShapeOf(num_elements),
                      /*num_updates=*/1);
  if (!updates.ok()) return runner->LeaveOut(name, updates.status(), section);
  std::vector<Entrant> references;
  references.push_back(
      {kDeviceCopy, copies->MakeLoad(CopyDirection::kWithinDevice,
                                     num_elements * SizeOf(DType::kF32))});
  runner->Measure({.name = name, .bytes = bytes},
                  {"update", Updates::InOneBatch(*updates)},
                  std::move(references), section);
}

}  // namespace

Section MeasureLargeUpdates(Backend* backend, PlainCopies* copies,
                            const Sizes& sizes, RowRunner* runner) {
  Section section = {.title = "Updates of a large tensor"};
  for (const LargeUpdate& update : LargeUpdates()) {
    MeasureLarge(update, backend, copies, sizes, runner, &section);
  }
  return section;
}

Section MeasureSmallUpdates(Backend* backend, PlainCopies* copies,
                            const Sizes& sizes, RowRunner* runner) {
  const std::string name = absl::StrCat("batch/adam/f32/", sizes.num_small, "x",
                                        ByteText(sizes.small_bytes));
  Section section = {.title = "Updates of many small tensors"};
  if (!runner->Wants(name)) return section;
  section.goals = {{.name = name, .bound = 50, .reference = "one by one"},
                   {.name = name, .bound = 0.5, .reference = kDeviceCopy}};
  const auto num_elements =
      static_cast<int64_t>(sizes.small_bytes / SizeOf(DType::kF32));
  const absl::StatusOr<std::shared_ptr<const Updates>> updates =
      Updates::Create(backend, {"adam", {}}, {.num_elements = num_elements},
                      sizes.num_small);
  if (!updates.ok()) {
    runner->LeaveOut(name, updates.status(), &section);
    return section;
  }
  std::vector<Entrant> references;
  references.push_back({"one by one", Updates::OneByOne(*updates)});
  references.push_back(
      {kDeviceCopy, copies->MakeLoad(CopyDirection::kWithinDevice,
                                     (*updates)->bytes_moved() / 2)});
  runner->Measure({.name = name, .bytes = sizes.num_small * sizes.small_bytes},
                  {"batch", Updates::InOneBatch(*updates)},
                  std::move(references), &section);
  return section;
}

}  // namespace tensorkv::bench::gpu
