#include "client/compression/compressor.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/hash/hash.h"
#include "base/status_macros.h"
#include "client/compression/cast.h"
#include "client/compression/element_runs.h"
#include "client/compression/encoder_loops.h"

namespace tensorkv {
namespace {

constexpr float kZeros[kRunElements] = {};

// Sums below are finite, however they were rounded on the way.
constexpr double kSafelyFinite = std::numeric_limits<float>::max() / 2;
constexpr double kUnknown = std::numeric_limits<double>::infinity();

bool AreFinite(const Tensor& tensor) {
  return AllRuns(tensor, [](const float* run, size_t, size_t count) {
    return SupportedEncoderLoops().can_add(run, kZeros, count);
  });
}

// Returns the largest magnitude, or NaN if there is one.
float LargestMagnitude(const Tensor& tensor) {
  float largest = 0;
  AllRuns(tensor, [&](const float* run, size_t, size_t count) {
    const float of_run = SupportedEncoderLoops().largest_magnitude(run, count);
    if (!std::isnan(largest) && !(of_run <= largest)) largest = of_run;
    return true;
  });
  return largest;
}

// Returns by how much more than its own magnitude an element can be off what
// its code stands for.
double LargestOvershoot(const Compression& compression) {
  return compression.kind == Compression::Kind::kOneBit ? kOneBitScale : 0;
}

// Sets zeros where there is something of another size.
void Resize(std::vector<float>& elements, size_t size) {
  if (elements.size() != size) elements.assign(size, 0.0f);
}

// Tells tensors apart. The same in one process only.
struct Fingerprint {
  DType dtype = DType::kF32;
  Shape shape;
  uint64_t hash = 0;  // of the bytes

  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

Fingerprint FingerprintOf(const Tensor& tensor) {
  const absl::string_view bytes(tensor.data(),
                                static_cast<size_t>(tensor.size_bytes()));
  return {tensor.dtype(), tensor.shape(), absl::HashOf(bytes)};
}

// Encodes the elements as they are, with nothing that was left out before.
absl::StatusOr<EncodedTensor> EncodeAlone(const Compression& compression,
                                          const Tensor& tensor,
                                          BufferPool& payloads) {
  if (compression.kind == Compression::Kind::kCast &&
      tensor.num_elements() > 0) {
    EncodedTensor encoded;
    ASSIGN_OR_RETURN(encoded.tensor,
                     Cast(tensor, {.dtype = compression.dtype}, payloads));
    return encoded;
  }
  if (tensor.num_elements() == 0 || !EncodesInRuns(compression, kRunElements)) {
    if (!AreFinite(tensor)) return NotFiniteError();
    std::vector<float> elements;
    elements.reserve(static_cast<size_t>(tensor.num_elements()));
    AllRuns(tensor, [&](const float* run, size_t, size_t count) {
      elements.insert(elements.end(), run, run + count);
      return true;
    });
    return Encode(compression, tensor.shape(), /*seed=*/0,
                  absl::MakeSpan(elements), payloads);
  }
  ASSIGN_OR_RETURN(EncodedTensor encoded,
                   AllocateEncoded(compression, tensor.shape(), payloads));
  const bool is_finite =
      AllRuns(tensor, [&](const float* run, size_t at, size_t count) {
        float elements[kRunElements] = {};
        if (!SupportedEncoderLoops().add(run, elements, count)) return false;
        EncodeRun(compression, at, absl::MakeSpan(elements, count), encoded);
        return true;
      });
  if (!is_finite) return NotFiniteError();
  return encoded;
}

// Returns whether rows are encoded so.
bool EncodesRows(const Compression& compression) {
  return compression.momentum == 0 &&
         (compression.kind == Compression::Kind::kCast ||
          compression.kind == Compression::Kind::kBlocks);
}

// Returns whether the entry's tensor can be encoded at all. What weighs nothing
// must not count later, as part of a residual.
bool IsEncodable(const PushEntry& entry) {
  if (entry.skip || entry.weight == 0 || entry.encoding) return false;
  const Tensor& tensor = entry.tensor;
  if (!tensor.has_data() && tensor.num_elements() > 0) return false;
  // The encoding of no elements is a top-k, which rows do not take.
  if (entry.rows && tensor.num_elements() == 0) return false;
  return IsFloat(tensor.dtype());
}

// Returns whether nothing of an entry is kept for its key's next ones. Its
// repeat is encoded to the same bytes.
bool IsEncodedAlone(const Compression& compression, const PushEntry& entry) {
  return entry.rows || (!compression.feedback && compression.momentum == 0 &&
                        EncodesInRuns(compression, kRunElements));
}

// Returns whether it may be cast when it is sent. The repeat of a step must
// have the same bytes, which residuals would change by then.
bool MayBeCastLater(Step step, const Compression& compression,
                    const PushEntry& entry) {
  return compression.kind == Compression::Kind::kCast &&
         compression.momentum == 0 && (step == 0 || !compression.feedback) &&
         !entry.rows && entry.tensor.num_elements() > 0;
}

}  // namespace

// Key holds what is kept of a key.
struct Compressor::Key {
  // Remembered holds what was encoded, and from what.
  struct Remembered {
    Fingerprint source;
    EncodedTensor tensor;
  };
  // RememberedStep holds what was encoded for a step, entry by entry.
  struct RememberedStep {
    Step step = 0;
    std::vector<std::optional<Remembered>> entries;
  };

  // Returns the encoding of entry `index` of that step, if it was encoded from
  // this one.
  const EncodedTensor* Find(Step at, size_t index,
                            const Fingerprint& source) const {
    const auto found = absl::c_find_if(
        encoded, [at](const RememberedStep& each) { return each.step == at; });
    if (found == encoded.end() || index >= found->entries.size()) {
      return nullptr;
    }
    const std::optional<Remembered>& entry = found->entries[index];
    return entry && entry->source == source ? &entry->tensor : nullptr;
  }

  void Remember(Step at, size_t index, const Fingerprint& source,
                const EncodedTensor& tensor) {
    auto place = absl::c_find_if(
        encoded, [at](const RememberedStep& each) { return each.step == at; });
    if (place == encoded.end()) {
      if (encoded.size() == kStepsRemembered) encoded.pop_front();
      encoded.push_back({at, {}});
      place = std::prev(encoded.end());
    }
    if (index >= place->entries.size()) place->entries.resize(index + 1);
    place->entries[index] = {source, tensor};
  }

  // Returns whether the residuals with the elements added, as Add does it, are
  // finite. `largest` is their largest magnitude, if it is needed.
  //
  // Residuals are not read where their bound tells: that would be half of the
  // memory's traffic.
  bool CanAdd(const Compression& compression, const Tensor& tensor,
              float* largest) {
    if (!BoundsResidual(compression)) {
      return AllSumsAreFinite(compression, tensor);
    }
    *largest = LargestMagnitude(tensor);
    const double left = LargestLeft(compression, tensor);
    if (left + *largest < kSafelyFinite) return true;
    if (!AllSumsAreFinite(compression, tensor)) return false;
    largest_left = SupportedEncoderLoops().largest_magnitude(residual.data(),
                                                             residual.size());
    return true;
  }

  // Returns whether each push leaves out no more of an element than its
  // magnitude and LargestOvershoot.
  static bool BoundsResidual(const Compression& compression) {
    return compression.momentum == 0 &&
           EncodesInRuns(compression, kRunElements);
  }

  double LargestLeft(const Compression& compression,
                     const Tensor& tensor) const {
    const auto size = static_cast<size_t>(tensor.num_elements());
    return compression.feedback && residual.size() == size ? largest_left : 0;
  }

  bool AllSumsAreFinite(const Compression& compression,
                        const Tensor& tensor) const {
    const EncoderLoops& loops = SupportedEncoderLoops();
    const auto size = static_cast<size_t>(tensor.num_elements());
    const bool has_left = compression.feedback && residual.size() == size;
    const bool has_mean = moment.size() == size;
    const float factor = compression.momentum;
    return AllRuns(tensor, [&](const float* run, size_t at, size_t count) {
      const float* const left = has_left ? residual.data() + at : kZeros;
      if (factor == 0) return loops.can_add(run, left, count);
      const float* const mean = has_mean ? moment.data() + at : kZeros;
      return loops.can_add_with_momentum(run, factor, mean, left, count);
    });
  }

  // Sets `sums` to the elements and what is left out, which may be the same
  // array, and hands on each sum, of a run from some place on, while it is in
  // the cache. False if a sum is not finite; such ones are not handed on.
  template <typename Visitor>
  bool Add(const Compression& compression, const Tensor& tensor,
           const float* left, float* sums, Visitor visit) {
    const EncoderLoops& loops = SupportedEncoderLoops();
    const float factor = compression.momentum;
    if (factor > 0) Resize(moment, static_cast<size_t>(tensor.num_elements()));
    return AllRuns(tensor, [&](const float* run, size_t at, size_t count) {
      float* const sum = sums + at;
      if (!compression.feedback) {
        std::fill_n(sum, count, 0.0f);
      } else if (left != sums) {
        std::copy_n(left + at, count, sum);
      }
      const bool is_finite =
          factor == 0 ? loops.add(run, sum, count)
                      : loops.add_with_momentum(run, factor, moment.data() + at,
                                                sum, count);
      if (is_finite) visit(at, absl::MakeSpan(sum, count));
      return is_finite;
    });
  }

  // Returns what largest_left becomes where the code of a sum is sent.
  double LargestLeftAfter(const Compression& compression, double before,
                          float largest) const {
    if (!BoundsResidual(compression)) return kUnknown;
    return (compression.feedback ? before : 0) + largest +
           LargestOvershoot(compression);
  }

  // Encodes the elements and what is left out, `left`, together, and sets
  // `sums`, which may be the same array, to what the code lacks. After an error
  // neither these nor the moment are of any use.
  absl::StatusOr<EncodedTensor> AddAndEncode(const Compression& compression,
                                             const Tensor& tensor,
                                             const float* left,
                                             absl::Span<float> sums,
                                             BufferPool& payloads) {
    const uint64_t chances = seed + num_encoded++;
    const Shape& shape = tensor.shape();
    if (tensor.num_elements() == 0 ||
        !EncodesInRuns(compression, kRunElements)) {
      const auto leave = [](size_t, absl::Span<float>) {};
      if (!Add(compression, tensor, left, sums.data(), leave)) {
        return SumTooLargeError();
      }
      return Encode(compression, shape, chances, sums, payloads);
    }
    ASSIGN_OR_RETURN(EncodedTensor encoded,
                     AllocateEncoded(compression, shape, payloads));
    const auto encode = [&](size_t first, absl::Span<float> run) {
      EncodeRun(compression, first, run, encoded);
    };
    if (!Add(compression, tensor, left, sums.data(), encode)) {
      return SumTooLargeError();
    }
    return encoded;
  }

  // Moves what is left out of `size` elements to `before`, and memory for as
  // many to `after`. What is left out of another number goes to `other`.
  void Take(size_t size, std::vector<float>& before, std::vector<float>& after,
            std::vector<float>& other) {
    (residual.size() == size ? before : other).swap(residual);
    after.swap(scratch);
    Resize(before, size);
    Resize(after, size);
    largest_left = 0;
  }

  // Does the reverse of Take, and adds what was left out meanwhile. No element
  // of `left` has a magnitude above `largest`.
  void GiveBack(std::vector<float>& left, std::vector<float>& unused,
                double largest) {
    scratch.swap(unused);
    if (residual.empty()) {
      residual.swap(left);
      largest_left = largest;
    } else if (residual.size() == left.size()) {
      SupportedEncoderLoops().add(left.data(), residual.data(), left.size());
      largest_left = kUnknown;
    }  // Else the key has another shape by now.
  }

  void Reset() {
    largest_left = 0;
    absl::c_fill(residual, 0.0f);
    absl::c_fill(moment, 0.0f);
  }

  Mutex mutex;
  std::vector<float> residual;
  // No element of it has a larger magnitude.
  double largest_left = 0;
  // For what a push leaves out of which it is not known yet whether it is made.
  std::vector<float> scratch;
  std::vector<float> moment;
  std::deque<RememberedStep> encoded;
  // Counts the contributions that were encoded: what is random differs from one
  // to the next.
  uint64_t num_encoded = 0;
  uint64_t seed = 0;
};

struct Compressor::Job {
  PushEntry* entry = nullptr;
  const Compression* compression = nullptr;
  std::shared_ptr<Key> key;  // null for what is encoded alone
  size_t index = 0;          // among the call's entries of the key
  // Where there is a step.
  Fingerprint source;
  // The largest magnitude of the elements, if Check has looked for it.
  float largest = std::numeric_limits<float>::infinity();
  // Holds what was encoded alone, which checks it too.
  EncodedTensor encoded;
};

struct Residuals::Taken {
  Taken(std::shared_ptr<Compressor::Key> from, size_t size)
      : key(std::move(from)) {
    MutexLock lock(&key->mutex);
    largest_before = key->residual.size() == size ? key->largest_left : 0;
    key->Take(size, before, after, other);
    feedback.before = before.data();
    feedback.after = after.data();
  }

  // Returns whether it is known all that a push of it leaves out. Else it was
  // not all sent.
  bool IsComplete() const { return feedback.done.Cover(after.size()); }

  void GiveBack(bool is_made) {
    if (is_made) before.swap(after);
    if (feedback.forgets_before) absl::c_fill(before, 0.0f);
    // The key still has the shape that it had.
    if (!is_made && !other.empty()) before.swap(other);
    MutexLock lock(&key->mutex);
    key->GiveBack(before, after, is_made ? largest_after : kUnknown);
  }

  // Forgets the encoding, as if the contribution had not been encoded, if it
  // was the last that was, and has been.
  void ForgetEncoding() {
    MutexLock lock(&key->mutex);
    if (num_encoded == 0 || key->num_encoded != num_encoded) return;
    --key->num_encoded;
    if (!feedback.forgets_before) key->moment.swap(moment_before);
  }

  const std::shared_ptr<Compressor::Key> key;
  std::vector<float> before;
  std::vector<float> after;
  std::vector<float> other;
  CastFeedback feedback;
  // Bound the magnitudes in `before` and `after`, as Key::largest_left does.
  double largest_before = 0;
  double largest_after = kUnknown;
  // Hold what the key had encoded with this contribution, 0 if that was not
  // encoded, and the moment before it.
  uint64_t num_encoded = 0;
  std::vector<float> moment_before;
};

Residuals::Residuals(bool takes_casts) : takes_casts_(takes_casts) {}

Residuals::~Residuals() {
  const bool is_made =
      is_kept_ && absl::c_all_of(taken_, [](const auto& taken) {
        return taken->IsComplete();
      });
  for (const auto& taken : taken_) taken->GiveBack(is_made);
  if (is_made) return;
  // The last first: a key may have several.
  std::for_each(taken_.rbegin(), taken_.rend(),
                [](const auto& taken) { taken->ForgetEncoding(); });
}

Compressor::Compressor(CompressionOptions options, Observer observer,
                       RefPtr<BufferPool> payloads)
    : options_(std::move(options)),
      observer_(std::move(observer)),
      payloads_(std::move(payloads)) {}

Compressor::~Compressor() = default;

absl::StatusOr<std::vector<PushEntry>> Compressor::Compress(
    Step step, std::vector<PushEntry> entries, Residuals* left) {
  if (options_.rules.empty()) return entries;
  if (left != nullptr && left->takes_casts_ && MayDeferCasts(step, entries)) {
    DeferCasts(entries, *left);
    return entries;
  }
  std::vector<Job> jobs = JobsOf(step, absl::MakeSpan(entries));
  // All, before the first that changes what is kept.
  for (Job& job : jobs) RETURN_IF_ERROR(Check(step, job));
  for (Job& job : jobs) {
    PushEntry& entry = *job.entry;
    const int64_t bytes_before = entry.tensor.size_bytes();
    absl::StatusOr<EncodedTensor> encoded = Encoded(step, job, left);
    if (!encoded.ok()) return OfKey(entry.key, encoded.status());
    entry.tensor = std::move(encoded->tensor);
    entry.encoding = std::move(encoded->encoding);
    Observe(*job.compression, bytes_before, entry.tensor.size_bytes());
  }
  return entries;
}

std::vector<Compressor::Job> Compressor::JobsOf(Step step,
                                                absl::Span<PushEntry> entries) {
  std::vector<Job> jobs;
  absl::flat_hash_map<absl::string_view, size_t> num_before;  // of each key
  for (PushEntry& entry : entries) {
    const Compression* const compression = CompressionOf(entry);
    if (compression == nullptr) continue;
    if (IsEncodedAlone(*compression, entry)) {
      jobs.push_back({&entry, compression});
      continue;
    }
    jobs.push_back({&entry, compression, KeyOf(entry.key),
                    num_before[entry.key]++,
                    step > 0 ? FingerprintOf(entry.tensor) : Fingerprint()});
  }
  return jobs;
}

bool Compressor::MayDeferCasts(Step step,
                               absl::Span<const PushEntry> entries) const {
  bool has_feedback = false;
  bool are_even = true;
  for (const PushEntry& entry : entries) {
    const Compression* const compression = CompressionOf(entry);
    if (compression == nullptr) {
      are_even &= entry.skip || entry.tensor.size_bytes() % 2 == 0;
      continue;
    }
    if (!MayBeCastLater(step, *compression, entry)) return false;
    has_feedback |= compression->feedback;
    are_even &=
        SizeOf(compression->dtype) * entry.tensor.num_elements() % 2 == 0;
  }
  // Else stripes may meet within an element, whose feedback both would write.
  return !has_feedback || are_even;
}

void Compressor::DeferCasts(absl::Span<const PushEntry> entries,
                            Residuals& left) {
  for (size_t i = 0; i < entries.size(); ++i) {
    const Compression* const compression = CompressionOf(entries[i]);
    if (compression == nullptr) continue;
    left.casts_.resize(entries.size());
    left.casts_[i].dtype = compression->dtype;
    const Tensor& tensor = entries[i].tensor;
    Observe(*compression, tensor.size_bytes(),
            tensor.num_elements() * SizeOf(compression->dtype));
    if (!compression->feedback) continue;
    left.taken_.push_back(std::make_unique<Residuals::Taken>(
        KeyOf(entries[i].key), static_cast<size_t>(tensor.num_elements())));
    left.casts_[i].feedback = &left.taken_.back()->feedback;
  }
}

void Compressor::Observe(const Compression& compression, int64_t bytes_before,
                         int64_t bytes_after) const {
  if (observer_) observer_(compression.kind, bytes_before, bytes_after);
}

const Compression* Compressor::CompressionOf(const PushEntry& entry) const {
  if (!IsEncodable(entry) ||
      entry.tensor.size_bytes() < static_cast<int64_t>(options_.min_bytes)) {
    return nullptr;
  }
  for (const CompressionRule& rule : options_.rules) {
    if (!rule.Matches(entry.key)) continue;
    const bool encodes =
        entry.rows ? EncodesRows(rule.compression)
                   : rule.compression.kind != Compression::Kind::kNone;
    return encodes ? &rule.compression : nullptr;
  }
  return nullptr;
}

std::shared_ptr<Compressor::Key> Compressor::KeyOf(const std::string& name) {
  MutexLock lock(&mutex_);
  std::shared_ptr<Key>& key = keys_[name];
  if (key == nullptr) {
    key = std::make_shared<Key>();
    // Another one for every key; the same in every run.
    for (const char byte : name) {
      key->seed = (key->seed ^ static_cast<uint8_t>(byte)) * 0x100000001b3;
    }
  }
  return key;
}

absl::Status Compressor::Check(Step step, Job& job) {
  if (job.key == nullptr) {
    absl::StatusOr<EncodedTensor> encoded =
        EncodeAlone(*job.compression, job.entry->tensor, *payloads_);
    if (!encoded.ok()) return OfKey(job.entry->key, encoded.status());
    job.encoded = *std::move(encoded);
    return absl::OkStatus();
  }
  Key& key = *job.key;
  MutexLock lock(&key.mutex);
  if (step > 0 && key.Find(step, job.index, job.source) != nullptr) {
    return absl::OkStatus();
  }
  if (key.CanAdd(*job.compression, job.entry->tensor, &job.largest)) {
    return absl::OkStatus();
  }
  if (!AreFinite(job.entry->tensor)) {
    return OfKey(job.entry->key, NotFiniteError());
  }
  key.Reset();
  return OfKey(job.entry->key, SumTooLargeError());
}

absl::StatusOr<EncodedTensor> Compressor::Encoded(Step step, Job& job,
                                                  Residuals* left) {
  if (job.key == nullptr) return std::move(job.encoded);
  if (step == 0 && left != nullptr) return EncodedFor(*left, job);
  const Compression& compression = *job.compression;
  const Tensor& tensor = job.entry->tensor;
  Key& key = *job.key;
  MutexLock lock(&key.mutex);
  if (step > 0) {
    const EncodedTensor* const repeat = key.Find(step, job.index, job.source);
    if (repeat != nullptr) return *repeat;
  }
  key.largest_left = key.LargestLeftAfter(
      compression, key.LargestLeft(compression, tensor), job.largest);
  Resize(key.residual, static_cast<size_t>(tensor.num_elements()));
  absl::StatusOr<EncodedTensor> encoded =
      key.AddAndEncode(compression, tensor, key.residual.data(),
                       absl::MakeSpan(key.residual), *payloads_);
  if (!encoded.ok()) {
    // A sum must not count when it is pushed again. It may be too large, as
    // another entry of the key may have come since the check.
    key.Reset();
    return encoded;
  }
  if (step > 0) key.Remember(step, job.index, job.source, *encoded);
  return encoded;
}

absl::StatusOr<EncodedTensor> Compressor::EncodedFor(Residuals& left,
                                                     Job& job) {
  const Compression& compression = *job.compression;
  const Tensor& tensor = job.entry->tensor;
  left.taken_.push_back(std::make_unique<Residuals::Taken>(
      job.key, static_cast<size_t>(tensor.num_elements())));
  Residuals::Taken& taken = *left.taken_.back();
  Key& key = *job.key;
  MutexLock lock(&key.mutex);
  if (compression.momentum > 0) taken.moment_before = key.moment;
  absl::StatusOr<EncodedTensor> encoded =
      key.AddAndEncode(compression, tensor, taken.before.data(),
                       absl::MakeSpan(taken.after), *payloads_);
  taken.num_encoded = key.num_encoded;
  if (!encoded.ok()) {
    taken.feedback.forgets_before = true;
    key.Reset();
    return encoded;
  }
  taken.largest_after =
      key.LargestLeftAfter(compression, taken.largest_before, job.largest);
  taken.feedback.done.Add(0, taken.after.size());
  return encoded;
}

}  // namespace tensorkv
