#include "bench/gpu/variants.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "bench/gpu/variant_kernels.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/update_table.h"

namespace tensorkv::bench::gpu {
namespace {

struct Variant {
  std::string name;
  CudaDeviceOptions device;
  UpdateTableOptions tables;
};

std::vector<Variant> Variants() {
  std::vector<Variant> variants = {
      {"packs_of_8", {.launcher = &LaunchPacksOf8}, {}},
      {"late_loads", {.launcher = &LaunchLateLoads}, {}},
      {"packs_of_8_late_loads", {.launcher = &LaunchPacksOf8LateLoads}, {}},
      {"entry_in_registers", {.launcher = &LaunchEntryInRegisters}, {}},
      {"blocks_in_turns", {.blocks_per_multiprocessor = 16}, {}},
      {"table_of_32k",
       {.launcher = &LaunchLargeTable},
       {.max_table_beside = kLargeTableBytes}},
      {"table_copied", {}, {.max_table_beside = 0}},
  };
  for (uint32_t num_parts = 1; num_parts <= kMaxParts; num_parts *= 2) {
    const uint32_t chunk_ki = kChunkElements / 1024 / num_parts;
    variants.push_back({absl::StrCat("chunks_of_", chunk_ki, "k"),
                        {},
                        {.num_parts = num_parts}});
  }
  for (const int microseconds : {0, 20, 200}) {
    variants.push_back({absl::StrCat("spin_", microseconds, "us"),
                        {.spin_time = absl::Microseconds(microseconds)},
                        {}});
  }
  return variants;
}

absl::StatusOr<Variant> Find(absl::string_view name) {
  if (name.empty()) return Variant();
  for (Variant& variant : Variants()) {
    if (variant.name == name) return std::move(variant);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--variant: expected all or one of ",
                   absl::StrJoin(VariantNames(), ", "), ", got ", name));
}

}  // namespace

std::vector<std::string> VariantNames() {
  std::vector<std::string> names;
  for (const Variant& variant : Variants()) names.push_back(variant.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Backend>> OpenVariant(int gpu,
                                                     absl::string_view variant,
                                                     uint64_t quota_bytes) {
  ASSIGN_OR_RETURN(const Variant found, Find(variant));
  ASSIGN_OR_RETURN(std::unique_ptr<CudaDevice> device,
                   CudaDevice::Create(gpu, found.device));
  return CudaBackend::Create(
      std::move(device), {.quota_bytes = quota_bytes, .updates = found.tables});
}

}  // namespace tensorkv::bench::gpu
