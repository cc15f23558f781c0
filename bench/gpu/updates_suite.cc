#include "bench/gpu/updates_suite.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/data_path/peers/workload.h"
#include "bench/gpu/comparer.h"
#include "bench/gpu/updates.h"
#include "tensor/rule_spec.h"

namespace tensorkv::bench::gpu {
namespace {

// One large update, and how fast it should be beside a copy.
struct LargeUpdate {
  std::string name;
  RuleSpec rule;
  DType dtype = DType::kF32;
  int num_contributions = 1;
  double goal = 0;
};

std::vector<LargeUpdate> LargeUpdates() {
  const RuleSpec adam = {"adam", {}};
  const RuleSpec momentum = {"sgd", {{"momentum", 0.9}}};
  const RuleSpec sgd = {"sgd", {}};
  return {{"adam/f32", adam, DType::kF32, 1, 0.95},
          {"sgd_momentum/f32", momentum, DType::kF32, 1, 0.95},
          {"sum_of_8_sgd/f32", sgd, DType::kF32, 8, 0.95},
          {"adam/bf16_master", adam, DType::kBF16, 1, 0.9}};
}

void MeasureLarge(const LargeUpdate& update, Backend* backend,
                  PlainCopies* copies, const Sizes& sizes, Comparer* comparer) {
  const int64_t num_elements = sizes.update_elements;
  const int64_t bytes = num_elements * SizeOf(update.dtype);
  const std::string name =
      absl::StrCat("update/", update.name, "/", ByteText(bytes));
  if (!comparer->Wants(name)) return;
  const absl::StatusOr<std::shared_ptr<const Updates>> updates =
      Updates::Create(backend, update.rule,
                      {.dtype = update.dtype,
                       .num_elements = num_elements,
                       .num_contributions = update.num_contributions},
                      /*num_updates=*/1);
  if (!updates.ok()) return comparer->LeaveOut(name, updates.status());
  std::vector<Rival> rivals;
  rivals.push_back(
      {{"device copy", copies->MakeLoad(CopyDirection::kWithinDevice,
                                        num_elements * SizeOf(DType::kF32))},
       update.goal});
  comparer->AddSpeeds(name, bytes, {"update", Updates::InOneBatch(*updates)},
                      std::move(rivals));
}

}  // namespace

ComparisonTable MeasureLargeUpdates(Backend* backend, PlainCopies* copies,
                                    const Sizes& sizes, RowRunner* runner) {
  ComparisonTable table = {.title = "Updates of a large tensor"};
  Comparer comparer(runner, &table);
  for (const LargeUpdate& update : LargeUpdates()) {
    MeasureLarge(update, backend, copies, sizes, &comparer);
  }
  return table;
}

ComparisonTable MeasureSmallUpdates(Backend* backend, PlainCopies* copies,
                                    const Sizes& sizes, RowRunner* runner) {
  ComparisonTable table = {.title = "Updates of many small tensors"};
  Comparer comparer(runner, &table);
  const std::string name = absl::StrCat("batch/adam/f32/", sizes.num_small, "x",
                                        ByteText(sizes.small_bytes));
  if (!comparer.Wants(name)) return table;
  const auto num_elements =
      static_cast<int64_t>(sizes.small_bytes / SizeOf(DType::kF32));
  const absl::StatusOr<std::shared_ptr<const Updates>> updates =
      Updates::Create(backend, {"adam", {}}, {.num_elements = num_elements},
                      sizes.num_small);
  if (!updates.ok()) {
    comparer.LeaveOut(name, updates.status());
    return table;
  }
  std::vector<Rival> rivals;
  rivals.push_back({{"one by one", Updates::OneByOne(*updates)}, 50});
  rivals.push_back(
      {{"device copy", copies->MakeLoad(CopyDirection::kWithinDevice,
                                        (*updates)->bytes_moved() / 2)},
       0.5});
  comparer.AddSpeeds(name, sizes.num_small * sizes.small_bytes,
                     {"batch", Updates::InOneBatch(*updates)},
                     std::move(rivals));
  return table;
}

}  // namespace tensorkv::bench::gpu
