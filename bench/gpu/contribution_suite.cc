#include "bench/gpu/contribution_suite.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/workload.h"
#include "bench/harness/load.h"
#include "bench/key_update.h"
#include "tensor/buffer.h"

namespace tensorkv::bench::gpu {
namespace {

// Updates whose contributions lie one behind the other on the host, as those of
// a call do. Not thread-safe.
class PushedUpdates {
 public:
  static absl::StatusOr<std::shared_ptr<PushedUpdates>> Create(
      Backend* backend, int64_t num_tensors, int64_t bytes_per_tensor) {
    ASSIGN_OR_RETURN(UpdateRule rule, UpdateRule::Create({"adam", {}}));
    std::shared_ptr<PushedUpdates> pushed(
        new PushedUpdates(backend, std::move(rule)));
    const auto num_elements =
        static_cast<int64_t>(bytes_per_tensor / SizeOf(DType::kF32));
    const int64_t bytes = num_tensors * bytes_per_tensor;
    ASSIGN_OR_RETURN(pushed->host_, backend->AllocateStaging(bytes, nullptr));
    std::memset(pushed->host_->mutable_data(), 0, bytes);
    ASSIGN_OR_RETURN(pushed->device_, backend->Allocate(bytes, nullptr));
    for (int64_t i = 0; i < num_tensors; ++i) {
      ASSIGN_OR_RETURN(KeyUpdate key,
                       KeyUpdate::Create(*backend, &pushed->rule_,
                                         {.num_elements = num_elements}));
      pushed->keys_.push_back(std::move(key));
    }
    pushed->on_host_ = pushed->ReadingFrom(pushed->host_->data(), num_elements);
    pushed->on_device_ =
        pushed->ReadingFrom(pushed->device_->data(), num_elements);
    return pushed;
  }

  int64_t bytes() const { return static_cast<int64_t>(host_->size_bytes()); }

  absl::Status ReadInPlace() {
    return backend_.Run({.updates = on_host_.batch});
  }
  absl::Status CopyBefore() {
    return backend_.Run({.uploads = {{host_->data(), device_->mutable_data(),
                                      host_->size_bytes()}},
                         .updates = on_device_.batch});
  }

 private:
  struct Batch {
    std::vector<TensorView> contributions;
    std::vector<TensorUpdate> batch;
  };

  PushedUpdates(Backend* backend, UpdateRule rule)
      : backend_(*backend), rule_(std::move(rule)) {}

  Batch ReadingFrom(const char* contributions, int64_t num_elements) const {
    Batch batch;
    batch.contributions.reserve(keys_.size());  // the updates refer to them
    for (const KeyUpdate& key : keys_) {
      TensorUpdate& update = batch.batch.emplace_back(key.view());
      update.contributions = {&batch.contributions.emplace_back(TensorView{
                                  DType::kF32, num_elements, contributions}),
                              1};
      contributions += batch.contributions.back().size_bytes();
    }
    return batch;
  }

  Backend& backend_;
  const UpdateRule rule_;
  std::vector<KeyUpdate> keys_;
  RefPtr<Buffer> host_;
  RefPtr<Buffer> device_;
  Batch on_host_;
  Batch on_device_;
};

void Measure(int64_t num_tensors, int64_t bytes_per_tensor, Backend* backend,
             RowRunner* runner, Section* section) {
  const std::string count =
      num_tensors == 1 ? "" : absl::StrCat(num_tensors, "x");
  const std::string name = absl::StrCat("contribution/read_in_place/", count,
                                        ByteText(bytes_per_tensor));
  if (!runner->Wants(name)) return;
  const absl::StatusOr<std::shared_ptr<PushedUpdates>> pushed =
      PushedUpdates::Create(backend, num_tensors, bytes_per_tensor);
  if (!pushed.ok()) return runner->LeaveOut(name, pushed.status(), section);
  const LoadShape shape = {.bytes_per_call = (*pushed)->bytes(),
                           .keys_per_call = num_tensors};
  std::vector<Entrant> references;
  references.push_back({"copied before", std::make_unique<FunctionLoad>(
                                             shape, [pushed = *pushed](int) {
                                               return pushed->CopyBefore();
                                             })});
  runner->Measure(
      {.name = name, .bytes = (*pushed)->bytes()},
      {"read in place",
       std::make_unique<FunctionLoad>(
           shape, [pushed = *pushed](int) { return pushed->ReadInPlace(); })},
      std::move(references), section);
}

}  // namespace

Section MeasureContributions(Backend* backend, const Sizes& sizes,
                             RowRunner* runner) {
  Section section = {.title = "Contributions in page-locked memory",
                     .unit = Unit::kMicroseconds};
  for (const int64_t bytes : sizes.read_in_place_bytes) {
    Measure(1, bytes, backend, runner, &section);
  }
  Measure(sizes.num_small, sizes.small_bytes, backend, runner, &section);
  return section;
}

}  // namespace tensorkv::bench::gpu
