#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/workload.h"
#include "bench/gpu/rows.h"
#include "tensor/buffer.h"

namespace tensorkv::bench::gpu {
namespace staging_rows {

// The tensors of one caller: one behind the other in memory of the host, as
// calls have it, and each in memory of its own on the device.
struct CallerTensors {
  absl::Status Fill(Backend* backend, int64_t num_tensors,
                    size_t bytes_per_tensor) {
    const size_t bytes = num_tensors * bytes_per_tensor;
    ASSIGN_OR_RETURN(host, backend->AllocateStaging(bytes, nullptr));
    std::memset(host->mutable_data(), 1, bytes);
    for (int64_t i = 0; i < num_tensors; ++i) {
      ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                       backend->Allocate(bytes_per_tensor, nullptr));
      char* const on_host = host->mutable_data() + i * bytes_per_tensor;
      to_device.push_back({on_host, buffer->mutable_data(), bytes_per_tensor});
      to_host.push_back({buffer->data(), on_host, bytes_per_tensor});
      device.push_back(std::move(buffer));
    }
    // Nobody wrote what a copy to the host would read.
    return backend->CopyToDevice(to_device);
  }

  Plan CopiesIn(CopyDirection direction) const {
    if (direction == CopyDirection::kToHost) return {.downloads = to_host};
    return {.uploads = to_device};
  }

  RefPtr<Buffer> host;
  std::vector<RefPtr<Buffer>> device;
  std::vector<MemoryCopy> to_device;
  std::vector<MemoryCopy> to_host;
};

// Copies of several callers at once.
absl::StatusOr<Load> StagingLoad(Backend* backend, CopyDirection direction,
                                 int64_t num_tensors, int64_t bytes_per_tensor,
                                 int num_callers) {
  const auto callers =
      std::make_shared<std::vector<CallerTensors>>(num_callers);
  for (CallerTensors& caller : *callers) {
    RETURN_IF_ERROR(caller.Fill(backend, num_tensors, bytes_per_tensor));
  }
  return Load{
      .call =
          [=] {
            return InParallel(num_callers, [&](int caller) {
              return backend->Run((*callers)[caller].CopiesIn(direction));
            });
          },
      .bytes = num_callers * num_tensors * bytes_per_tensor,
      .keys = num_callers * num_tensors};
}

}  // namespace staging_rows

std::vector<Row> StagingRows(Backend* backend, const MakeCopy& copy,
                             const Sizes& sizes) {
  std::vector<Row> rows;
  const auto add = [&](CopyDirection direction, int64_t num_tensors,
                       int64_t bytes, int num_callers, double goal) {
    const char* const to =
        direction == CopyDirection::kToHost ? "to_host/" : "to_device/";
    rows.push_back(
        {.name = absl::StrCat("staging/", to, SizeText(bytes, num_tensors), "@",
                              num_callers),
         .make_load =
             [=] {
               return staging_rows::StagingLoad(backend, direction, num_tensors,
                                                bytes, num_callers);
             },
         .references = {{"pinned_copy",
                         [=] { return copy(direction, num_tensors * bytes); },
                         goal}}});
  };
  for (const auto direction :
       {CopyDirection::kToDevice, CopyDirection::kToHost}) {
    for (const int num_callers : sizes.staging_callers) {
      add(direction, 1, sizes.staged_bytes, num_callers, 0.95);
    }
    add(direction, sizes.num_small, sizes.small_bytes, /*num_callers=*/1, 0);
  }
  return rows;
}

}  // namespace tensorkv::bench::gpu
