#include "bench/gpu/staging_suite.h"

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/workload.h"
#include "bench/harness/load.h"
#include "tensor/buffer.h"

namespace tensorkv::bench::gpu {
namespace {

constexpr double kLargeGoal = 0.95;

// What one call copies.
struct CallShape {
  int64_t num_tensors = 1;
  int64_t bytes_per_tensor = 0;

  int64_t bytes() const { return num_tensors * bytes_per_tensor; }
};

// The tensors of one caller: one behind the other in memory of the host, as
// calls have it, and each in memory of its own on the device.
class CallerTensors {
 public:
  static absl::StatusOr<CallerTensors> Create(Backend* backend,
                                              const CallShape& shape) {
    CallerTensors tensors;
    ASSIGN_OR_RETURN(tensors.host_, backend->AllocateStaging(
                                        shape.bytes(), /*account=*/nullptr));
    std::memset(tensors.host_->mutable_data(), 1, shape.bytes());
    const auto bytes = static_cast<size_t>(shape.bytes_per_tensor);
    for (int64_t i = 0; i < shape.num_tensors; ++i) {
      ASSIGN_OR_RETURN(RefPtr<Buffer> buffer,
                       backend->Allocate(bytes, /*account=*/nullptr));
      char* const host = tensors.host_->mutable_data() + i * bytes;
      tensors.to_device_.push_back({host, buffer->mutable_data(), bytes});
      tensors.to_host_.push_back({buffer->data(), host, bytes});
      tensors.device_.push_back(std::move(buffer));
    }
    // Nobody wrote what a copy to the host would read.
    RETURN_IF_ERROR(backend->CopyToDevice(tensors.to_device_));
    return tensors;
  }

  tensorkv::Plan CopiesIn(CopyDirection direction) const {
    if (direction == CopyDirection::kToHost) return {.downloads = to_host_};
    return {.uploads = to_device_};
  }

 private:
  RefPtr<Buffer> host_;
  std::vector<RefPtr<Buffer>> device_;
  std::vector<MemoryCopy> to_device_;
  std::vector<MemoryCopy> to_host_;
};

// Copies of several callers at once.
absl::StatusOr<std::unique_ptr<Load>> MakeStagingLoad(Backend* backend,
                                                      CopyDirection direction,
                                                      const CallShape& shape,
                                                      int num_callers) {
  auto callers = std::make_shared<std::vector<CallerTensors>>();
  for (int i = 0; i < num_callers; ++i) {
    ASSIGN_OR_RETURN(CallerTensors caller,
                     CallerTensors::Create(backend, shape));
    callers->push_back(std::move(caller));
  }
  return std::make_unique<FunctionLoad>(
      LoadShape{.bytes_per_call = shape.bytes(),
                .keys_per_call = shape.num_tensors,
                .in_flight = num_callers},
      [backend, direction, callers](int lane) {
        return backend->Run((*callers)[lane].CopiesIn(direction));
      });
}

std::string NameOf(CopyDirection direction) {
  return direction == CopyDirection::kToHost ? "to_host" : "to_device";
}

constexpr char kPinnedCopy[] = "pinned copy";

class StagingSuite {
 public:
  StagingSuite(Backend* backend, PlainCopies* copies, RowRunner* runner)
      : backend_(backend), copies_(copies), runner_(runner) {}

  void Measure(CopyDirection direction, const CallShape& shape, int num_callers,
               std::optional<double> goal) {
    const std::string count =
        shape.num_tensors == 1 ? "" : absl::StrCat(shape.num_tensors, "x");
    const std::string name =
        absl::StrCat("staging/", NameOf(direction), "/", count,
                     ByteText(shape.bytes_per_tensor), "@", num_callers);
    if (!runner_->Wants(name)) return;
    if (goal.has_value()) {
      section_.goals.push_back(
          {.name = name, .bound = *goal, .reference = kPinnedCopy});
    }
    std::vector<Entrant> references;
    references.push_back(
        {kPinnedCopy, copies_->MakeLoad(direction, shape.bytes())});
    runner_->Measure(
        {.name = name, .bytes = shape.bytes(), .in_flight = num_callers},
        {"staging", MakeStagingLoad(backend_, direction, shape, num_callers)},
        std::move(references), &section_);
  }

  Section& section() { return section_; }

 private:
  Backend* const backend_;
  PlainCopies* const copies_;
  RowRunner* const runner_;
  Section section_ = {.title = "Copies between host and device"};
};

}  // namespace

Section MeasureStaging(Backend* backend, PlainCopies* copies,
                       const Sizes& sizes, RowRunner* runner) {
  StagingSuite suite(backend, copies, runner);
  for (const auto direction :
       {CopyDirection::kToDevice, CopyDirection::kToHost}) {
    for (const int num_callers : sizes.staging_callers) {
      suite.Measure(direction, {.bytes_per_tensor = sizes.staged_bytes},
                    num_callers, kLargeGoal);
    }
    suite.Measure(
        direction,
        {.num_tensors = sizes.num_small, .bytes_per_tensor = sizes.small_bytes},
        /*num_callers=*/1, /*goal=*/std::nullopt);
  }
  return std::move(suite.section());
}

}  // namespace tensorkv::bench::gpu
