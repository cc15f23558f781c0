// The interface of a device for the store: it keeps bytes, and updates many
// tensors in one pass.

#ifndef TENSORKV_KERNELS_BACKEND_H_
#define TENSORKV_KERNELS_BACKEND_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/answer.h"
#include "base/ref_counted.h"
#include "kernels/device_health.h"
#include "kernels/update_rule.h"
#include "tensor/buffer.h"
#include "tensor/packing.h"
#include "tensor/tensor.h"

namespace tensorkv {

// What contributions weigh in a mean. T is the accumulate type of a float key,
// and f64 for any other:
//
//   s = T(each[0]) x[0], then s <- s + T(each[k]) x[k] in order; s / T(total)
//
// Each product, each sum and the quotient is rounded to T; for keys that are no
// floats the quotient then to an integer, to nearest even
// (kernels/ops/weighted_mean.h).
struct ContributionWeights {
  // Positive and finite, one for each contribution.
  absl::Span<const double> each;
  // The divisor: what these weigh and others that bring nothing for these
  // elements. 0, for float keys alone: s is not divided.
  double total = 0;
};

// One key's update, read and written in one pass:
//
//   value = rule(stored, sum of contributions in their order, states, t)
//
// or of a mean of contributions in place of their sum.
// All tensors but states per row have the same number of elements. They are
// memory of the backend, and do not overlap, except that `value` may be
// `stored`.
struct TensorUpdate {
  const UpdateRule* rule = nullptr;

  // t, the number of this update of the key, from 1.
  uint64_t update_count = 1;

  // What the key multiplies the rule's learning rate and weight decay by.
  Multipliers multipliers;

  // Differs from key to key, where rule->takes_seed().
  uint64_t seed = 0;

  // The index in the key of the update's first element: the update may be of
  // some of the key's rows.
  uint64_t first_element = 0;

  // The current value, in the key's dtype. assign does not read it.
  TensorView stored;

  // At least one, in memory that the backend can read (CanRead). Floats of any
  // kind for a float key, else the key's dtype.
  // The sum is kept in AccumulateType(value.dtype), starts with the first and
  // adds the others in order; integers wrap. If is_host(), unpacked ones may be
  // at any address.
  absl::Span<const TensorView> contributions;

  // Empty if no contribution is packed, else one for each, null for an unpacked
  // one. A packed contribution has its payload for data, aligned to 8 bytes,
  // and the dtype of what that decodes to. It must have been checked against
  // its packing, and goes to float keys alone.
  absl::Span<const Packing* const> packings;

  // The index of the update's first element in what each contribution unpacks
  // to. Empty if that is `first_element` for all.
  absl::Span<const uint64_t> packed_firsts;

  // What the rule gets in place of the sum, if one of them is set: the weighted
  // mean of the contributions; or, for float keys alone, the mean of so many of
  // them to each element, those in the middle when they are put in order by
  // value (kernels/ops/middle_mean.h): as many are left out below as above.
  const ContributionWeights* weights = nullptr;
  uint32_t num_averaged = 0;
  bool has_mean() const { return weights != nullptr || num_averaged > 0; }

  // rule->num_states() tensors of AccumulateType(value.dtype), shaped as their
  // StateSpecs say.
  absl::Span<const MutableTensorView> states;

  // How many rows the value has; the elements of a row follow one another. Only
  // rules that keep states per row or column look at it.
  int64_t num_rows = 1;

  // f32, with the value before and after the update unrounded, which the rule
  // reads in place of `stored`. Without data where
  // rule->keeps_master(value.dtype) is false.
  MutableTensorView master;

  // Where the new value goes, rounded to nearest even. With the rule assign
  // the dtype may be any float for float contributions: a conversion.
  MutableTensorView value;

  // Returns how the contribution is packed; null if it is not.
  const Packing* PackingOf(size_t contribution) const {
    return packings.empty() ? nullptr : packings[contribution];
  }
  // Returns the index of the update's first element in what it unpacks to.
  uint64_t PackedFirstOf(size_t contribution) const {
    return packed_firsts.empty() ? first_element : packed_firsts[contribution];
  }
};

// Bytes to copy between host memory and memory of a device.
struct MemoryCopy {
  const char* from = nullptr;
  char* to = nullptr;
  size_t size_bytes = 0;
};

// Work for a device, in this order. The spans and the memory of copies must
// stay until the plan is done.
struct Plan {
  // From host memory to the device.
  std::vector<MemoryCopy> uploads;
  // All bytes of these become zero.
  absl::Span<const MutableTensorView> zeros;
  // One batch: updates touch different tensors.
  absl::Span<const TensorUpdate> updates;
  // From the device to host memory.
  std::vector<MemoryCopy> downloads;

  bool empty() const {
    return uploads.empty() && zeros.empty() && updates.empty() &&
           downloads.empty();
  }
};

// Called once, with the status that a plan has ended with.
using PlanCallback = absl::AnyInvocable<void(absl::Status) &&>;

// A device that keeps tensors and updates them. Thread-safe.
//
// Knows nothing of keys, rounds or calls. Same inputs, same bits: whatever the
// batch, the instruction set and the thread (functors never contract a*b+c,
// sums have one order). With the rule assign, a single contribution in the
// value's dtype is copied bit by bit.
class Backend {
 public:
  virtual ~Backend() = default;

  // Returns the name, such as "cpu" or "cuda:0".
  virtual absl::string_view name() const = 0;

  // Returns whether the device's memory is the host's: then nothing needs to be
  // copied.
  virtual bool is_host() const = 0;

  // Tells whether the device works. Once it has failed, every plan ends with
  // the status that this tells.
  virtual DeviceHealth& health() = 0;

  // Returns memory of the device, uninitialised, 64-byte aligned. `account`, if
  // any, must have counted the bytes, and gets them back when the buffer is
  // destroyed; if this fails, the caller must release them.
  // Errors: ResourceExhausted · those of the device: Unavailable · Internal.
  virtual absl::StatusOr<RefPtr<Buffer>> Allocate(
      size_t size_bytes, RefPtr<MemoryAccount> account) = 0;

  // Returns memory of the host, uninitialised, 64-byte aligned: page-locked
  // where the device copies from and to that fastest, and ordinary memory,
  // without a sign, where page-locked memory is used up or cannot be had.
  // `account` is as for Allocate. Errors: ResourceExhausted.
  virtual absl::StatusOr<RefPtr<Buffer>> AllocateStaging(
      size_t size_bytes, RefPtr<MemoryAccount> account) {
    return HostBuffer::Allocate(size_bytes, std::move(account));
  }

  // Returns whether the device can read these bytes where they lie, on the host
  // or in its own memory: then an upload of them begins at once, without a copy
  // on the caller's thread, and updates take contributions from there.
  virtual bool CanRead(const char* data, size_t size_bytes) const {
    return is_host();
  }

  // Starts a plan, and calls `done` once when it is done: on any thread, maybe
  // before this returns. Where is_host(), runs the whole plan on the caller's
  // thread; else `done` must not wait for the device. A plan sees what plans
  // submitted before it have uploaded; an empty plan is done when these uploads
  // are. It must not touch the tensors of other plans that are not done. May
  // block while uploads from memory that the device cannot read wait for those
  // of other plans.
  //
  // Returns OK if the uploads have been started: then they come to their end
  // unless the device fails, and `done` gets the outcome of the whole plan.
  // Returns any other status if nothing but uploads, perhaps some, will be
  // done; `done` is called with the same status.
  // Errors: InvalidArgument (a dtype that the rule does not take, element
  // counts that differ; checked before any effect) · ResourceExhausted (no
  // memory for what updates take besides their tensors; before any of them) ·
  // Unavailable (the device has failed) · Internal; of copies, part of the
  // bytes may be there then.
  virtual absl::Status Submit(Plan plan, PlanCallback done) = 0;

  // Submits a plan, blocks until it is done, and returns the status that it has
  // ended with: one of Submit's. REQUIRES: not called by a PlanCallback.
  virtual absl::Status Run(Plan plan) {
    const Answer<absl::Status> outcome;
    Submit(std::move(plan), [outcome](absl::Status status) {
      outcome.Set(std::move(status));
    }).IgnoreError();  // the callback is told
    return outcome.Wait();
  }

  // Calls `done` when the device has done all work that was submitted before,
  // or has failed: on any thread, maybe before this returns. If the device
  // hangs, `done` is not called.
  virtual void Probe(absl::AnyInvocable<void() &&> done) { std::move(done)(); }

  // Allocates the memory that these updates take besides their tensors, and
  // keeps it: a plan of them does not end with ResourceExhausted later. Reads
  // no tensor and updates none.
  //
  // Errors: ResourceExhausted · those of the device.
  virtual absl::Status ReserveForUpdates(
      absl::Span<const TensorUpdate> batch) = 0;

  // Plans of one step, of which the first three block until it is done. Zero
  // and Apply of nothing return the device's status.
  absl::Status Zero(absl::Span<const MutableTensorView> tensors) {
    return tensors.empty() ? health().status() : Run({.zeros = tensors});
  }
  absl::Status Apply(absl::Span<const TensorUpdate> batch) {
    return batch.empty() ? health().status() : Run({.updates = batch});
  }
  absl::Status CopyToDevice(absl::Span<const MemoryCopy> copies) {
    return Run({.uploads = {copies.begin(), copies.end()}});
  }
  void CopyToHost(std::vector<MemoryCopy> copies, PlanCallback done) {
    // The callback is told.
    Submit({.downloads = std::move(copies)}, std::move(done)).IgnoreError();
  }
};

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_BACKEND_H_
