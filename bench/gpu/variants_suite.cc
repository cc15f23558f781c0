#include "bench/gpu/variants_suite.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/workload.h"
#include "bench/gpu/push_suite.h"
#include "bench/gpu/updates.h"
#include "bench/gpu/updates_suite.h"

namespace tensorkv::bench::gpu {
namespace {

// As many as fit a table of 32 KiB, and not one of 4 KiB.
constexpr int64_t kNumFew = 100;

// What is measured of both backends alike.
struct Measured {
  std::string name;
  int64_t bytes = 0;
  std::function<absl::StatusOr<std::unique_ptr<Load>>(Backend*)> make_load;
};

absl::StatusOr<std::unique_ptr<Load>> UpdateLoad(Backend* backend,
                                                 const RuleSpec& rule,
                                                 const KeyUpdateShape& shape,
                                                 int64_t num_updates) {
  ASSIGN_OR_RETURN(std::shared_ptr<const Updates> updates,
                   Updates::Create(backend, rule, shape, num_updates));
  return Updates::InOneBatch(std::move(updates));
}

std::vector<Measured> AllMeasured(const Sizes& sizes) {
  std::vector<Measured> figures;
  for (const LargeUpdate& update : LargeUpdates()) {
    const int64_t bytes = sizes.update_elements * SizeOf(update.dtype);
    const KeyUpdateShape shape = update.ShapeOf(sizes.update_elements);
    figures.push_back(
        {absl::StrCat("update/", update.name, "/", ByteText(bytes)), bytes,
         [rule = update.rule, shape](Backend* backend) {
           return UpdateLoad(backend, rule, shape, 1);
         }});
  }
  const KeyUpdateShape small = {.num_elements = static_cast<int64_t>(
                                    sizes.small_bytes / SizeOf(DType::kF32))};
  for (const int64_t count : {kNumFew, sizes.num_small}) {
    figures.push_back({absl::StrCat("batch/adam/f32/", count, "x",
                                    ByteText(sizes.small_bytes)),
                       count * sizes.small_bytes,
                       [small, count](Backend* backend) {
                         return UpdateLoad(backend, {"adam", {}}, small, count);
                       }});
  }
  const int64_t pushed = sizes.pushed_bytes;
  figures.push_back(
      {absl::StrCat("push/whole/", ByteText(pushed)), pushed,
       [pushed](Backend* backend) { return PushLoadOf(backend, pushed); }});
  return figures;
}

}  // namespace

Section MeasureVariant(const std::string& name, Backend* variant,
                       Backend* usual, const Sizes& sizes, RowRunner* runner) {
  Section section = {.title = absl::StrCat("Variant ", name)};
  for (const Measured& figure : AllMeasured(sizes)) {
    const std::string row = absl::StrCat("variant/", name, "/", figure.name);
    if (!runner->Wants(row)) continue;
    std::vector<Entrant> references;
    references.push_back({"as servers have it", figure.make_load(usual)});
    runner->Measure({.name = row, .bytes = figure.bytes},
                    {name, figure.make_load(variant)}, std::move(references),
                    &section);
  }
  return section;
}

}  // namespace tensorkv::bench::gpu
