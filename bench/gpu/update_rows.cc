#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/workload.h"
#include "bench/gpu/rows.h"
#include "bench/updates.h"
#include "tensor/buffer.h"

namespace tensorkv::bench::gpu {
namespace update_rows {

// A value, its eight contributions, both ends of the copy beside it, and one
// for what the memory's pool keeps of the row before.
constexpr uint64_t kTensorsAtOnce = 12;
constexpr int64_t kLeastElements = 1 << 10;
// As many small tensors as fit a table of 32 KiB, and not one of 4 KiB.
constexpr int64_t kNumFew = 100;
constexpr char kDeviceCopy[] = "device_copy";

const RuleSpec kAdam = {"adam", {}};

// One large update, and how fast it should be beside a copy.
struct LargeUpdate {
  const char* name;
  RuleSpec rule;
  DType dtype = DType::kF32;
  int num_contributions = 1;
  double goal = 0;
};

std::vector<LargeUpdate> LargeUpdates() {
  return {
      {"adam/f32", kAdam, DType::kF32, 1, 0.97},
      {"sgd_momentum/f32", {"sgd", {{"momentum", 0.9}}}, DType::kF32, 1, 0.97},
      {"sum_of_8_sgd/f32", {"sgd", {}}, DType::kF32, 8, 0.97},
      {"adam/bf16_master", kAdam, DType::kBF16, 1, 0.93}};
}

// What is measured of any backend.
struct Measured {
  std::string name;
  std::function<absl::StatusOr<Load>(Backend*)> make_load;
};

Measured Large(const LargeUpdate& update, const Sizes& sizes) {
  const KeyUpdateShape shape = {.dtype = update.dtype,
                                .num_elements = sizes.update_elements,
                                .num_contributions = update.num_contributions};
  const int64_t bytes = sizes.update_elements * SizeOf(update.dtype);
  return {absl::StrCat("update/", update.name, "/", ByteText(bytes)),
          [=, rule = update.rule](Backend* backend) {
            return UpdateLoad(backend, rule, shape, /*num_updates=*/1);
          }};
}

KeyUpdateShape SmallShape(const Sizes& sizes) {
  return {.num_elements =
              static_cast<int64_t>(sizes.small_bytes / SizeOf(DType::kF32))};
}

Measured Small(int64_t count, const Sizes& sizes) {
  return {absl::StrCat("batch/adam/f32/", SizeText(sizes.small_bytes, count)),
          [=](Backend* backend) {
            return UpdateLoad(backend, kAdam, SmallShape(sizes), count);
          }};
}

// Updates whose contributions lie one behind the other on the host, as those of
// a call do.
struct PushedUpdates {
  absl::Status Fill(int64_t num_tensors, int64_t bytes_per_tensor) {
    const int64_t bytes = num_tensors * bytes_per_tensor;
    ASSIGN_OR_RETURN(host, backend->AllocateStaging(bytes, nullptr));
    std::memset(host->mutable_data(), 0, bytes);
    ASSIGN_OR_RETURN(device, backend->Allocate(bytes, nullptr));
    const auto num_elements =
        static_cast<int64_t>(bytes_per_tensor / SizeOf(DType::kF32));
    ASSIGN_OR_RETURN(
        updates, Updates::Create(backend, kAdam, {.num_elements = num_elements},
                                 num_tensors));
    // The updates refer to them.
    contributions.reserve(2 * num_tensors);
    Read(host->data(), num_elements, &on_host);
    Read(device->data(), num_elements, &on_device);
    return absl::OkStatus();
  }

  void Read(const char* from, int64_t num_elements,
            std::vector<TensorUpdate>* batch) {
    *batch = updates->batch;
    for (TensorUpdate& update : *batch) {
      contributions.push_back({DType::kF32, num_elements, from});
      update.contributions = {&contributions.back(), 1};
      from += contributions.back().size_bytes();
    }
  }

  absl::Status Apply(bool in_place) {
    if (in_place) return backend->Run({.updates = on_host});
    return backend->Run({.uploads = {{host->data(), device->mutable_data(),
                                      host->size_bytes()}},
                         .updates = on_device});
  }

  Backend* backend;
  std::shared_ptr<Updates> updates = nullptr;
  RefPtr<Buffer> host = nullptr;
  RefPtr<Buffer> device = nullptr;
  std::vector<TensorView> contributions = {};
  std::vector<TensorUpdate> on_host = {};
  std::vector<TensorUpdate> on_device = {};
};

absl::StatusOr<Load> PushedLoad(Backend* backend, int64_t num_tensors,
                                int64_t bytes_per_tensor, bool in_place) {
  const auto pushed =
      std::make_shared<PushedUpdates>(PushedUpdates{.backend = backend});
  RETURN_IF_ERROR(pushed->Fill(num_tensors, bytes_per_tensor));
  return Load{.call = [=] { return pushed->Apply(in_place); },
              .bytes = num_tensors * bytes_per_tensor,
              .keys = num_tensors};
}

bool Fits(uint64_t free_bytes, const Sizes& sizes) {
  const uint64_t update = sizes.update_elements * sizeof(float);
  const uint64_t callers = *std::max_element(sizes.staging_callers.begin(),
                                             sizes.staging_callers.end());
  const uint64_t copies = (callers + 1) * sizes.staged_bytes;
  // The pool keeps what the updates have had.
  return kTensorsAtOnce * update + copies <= free_bytes;
}

}  // namespace update_rows

using update_rows::kDeviceCopy;

Sizes SizesFor(uint64_t free_bytes, bool is_quick) {
  Sizes sizes;
  if (is_quick) {
    sizes.update_elements /= 16;
    sizes.staged_bytes /= 4;
  }
  while (sizes.update_elements > update_rows::kLeastElements &&
         !update_rows::Fits(free_bytes, sizes)) {
    sizes.update_elements /= 2;
    sizes.staged_bytes = std::max<int64_t>(sizes.staged_bytes / 2, 1 << 20);
  }
  return sizes;
}

std::vector<Row> UpdateRows(Backend* backend, const MakeCopy& copy,
                            const Sizes& sizes) {
  std::vector<Row> rows;
  for (const update_rows::LargeUpdate& update : update_rows::LargeUpdates()) {
    const auto measured = update_rows::Large(update, sizes);
    const auto f32_bytes =
        static_cast<int64_t>(sizes.update_elements * SizeOf(DType::kF32));
    rows.push_back(
        {.name = measured.name,
         .make_load = [=] { return measured.make_load(backend); },
         .references = {
             {kDeviceCopy,
              [=] { return copy(CopyDirection::kWithinDevice, f32_bytes); },
              update.goal}}});
  }
  const auto measured = update_rows::Small(sizes.num_small, sizes);
  const auto load = [=](bool in_one_batch) {
    return UpdateLoad(backend, update_rows::kAdam,
                      update_rows::SmallShape(sizes), sizes.num_small,
                      in_one_batch);
  };
  rows.push_back(
      {.name = measured.name,
       .make_load = [=] { return load(true); },
       .references = {{"one_by_one", [=] { return load(false); }, 50},
                      {kDeviceCopy,
                       [=]() -> absl::StatusOr<Load> {
                         // It moves as many bytes: 28 for each element of adam.
                         return copy(
                             CopyDirection::kWithinDevice,
                             sizes.num_small * sizes.small_bytes / 4 * 28 / 2);
                       },
                       0.5}}});
  return rows;
}

std::vector<Row> ContributionRows(Backend* backend, const Sizes& sizes) {
  std::vector<Row> rows;
  const auto add = [&](int64_t num_tensors, int64_t bytes) {
    const auto load = [=](bool in_place) {
      return update_rows::PushedLoad(backend, num_tensors, bytes, in_place);
    };
    rows.push_back(
        {.name = absl::StrCat("contribution/read_in_place/",
                              SizeText(bytes, num_tensors)),
         .make_load = [=] { return load(true); },
         .references = {{"copied_before", [=] { return load(false); }}}});
  };
  for (const int64_t bytes : sizes.read_in_place_bytes) add(1, bytes);
  add(sizes.num_small, sizes.small_bytes);
  return rows;
}

std::vector<Row> VariantRows(const std::string& name, const GetBackend& variant,
                             Backend* usual, const Sizes& sizes) {
  std::vector<update_rows::Measured> figures;
  for (const update_rows::LargeUpdate& update : update_rows::LargeUpdates()) {
    figures.push_back(update_rows::Large(update, sizes));
  }
  for (const int64_t count : {update_rows::kNumFew, sizes.num_small}) {
    figures.push_back(update_rows::Small(count, sizes));
  }
  figures.push_back({absl::StrCat("push/whole/", ByteText(sizes.pushed_bytes)),
                     [bytes = sizes.pushed_bytes](Backend* backend) {
                       return PushLoad(backend, bytes);
                     }});
  std::vector<Row> rows;
  for (const update_rows::Measured& figure : figures) {
    rows.push_back(
        {.name = absl::StrCat("variant/", name, "/", figure.name),
         .make_load = [=]() -> absl::StatusOr<Load> {
           ASSIGN_OR_RETURN(Backend* const backend, variant());
           return figure.make_load(backend);
         },
         .references = {{"servers", [=] { return figure.make_load(usual); }}}});
  }
  return rows;
}

}  // namespace tensorkv::bench::gpu
