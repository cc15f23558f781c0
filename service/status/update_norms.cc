#include "service/status/update_norms.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "tensor/elements.h"

namespace tensorkv {
namespace {

// A look gives back its values no later than after so many.
constexpr size_t kElementsPerTurn = 1 << 16;

constexpr char kNoRoom[] = "the budget leaves no room for a copy of it";

template <typename T>
std::optional<double> SquaresOf(const Tensor& before, const Tensor& after,
                                size_t first, size_t count) {
  const absl::StatusOr<absl::Span<const T>> old_elements =
      ElementsOf<T>(before);
  const absl::StatusOr<absl::Span<const T>> new_elements = ElementsOf<T>(after);
  if (!old_elements.ok() || !new_elements.ok()) return std::nullopt;
  const size_t size = new_elements->size();
  const size_t end = first + std::min(count, size - std::min(first, size));
  double sum = 0;
  for (size_t i = first; i < end; ++i) {
    const double change = static_cast<double>((*new_elements)[i]) -
                          static_cast<double>((*old_elements)[i]);
    sum += change * change;
  }
  return sum;
}

// The sum over `count` elements from `first` on, or as many as there are.
std::optional<double> SquaresOfChange(const Tensor& before, const Tensor& after,
                                      size_t first, size_t count) {
  if (before.dtype() != after.dtype() || before.shape() != after.shape()) {
    return std::nullopt;
  }
  switch (after.dtype()) {
    case DType::kF32:
      return SquaresOf<float>(before, after, first, count);
    case DType::kF64:
      return SquaresOf<double>(before, after, first, count);
    case DType::kF16:
      return SquaresOf<Half>(before, after, first, count);
    case DType::kBF16:
      return SquaresOf<BFloat16>(before, after, first, count);
    default:
      return std::nullopt;
  }
}

PullRequest RequestFor(const std::string& name_space, const std::string& key,
                       Version min_version) {
  PullRequest request;
  request.name_space = name_space;
  request.entries.push_back({.key = key, .min_version = min_version});
  return request;
}

// The key may have been made anew since its size was asked.
CallContext ContextFor(uint64_t max_bytes) {
  return {.timeout = UpdateNorms::kPatience, .max_reply_bytes = max_bytes};
}

bool HasNorm(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF32 || dtype == DType::kF64;
}

// Empty if updates of such a key can be looked at.
std::string WhyNever(const KeyStatus& key) {
  if (!HasNorm(key.dtype)) {
    return absl::StrCat("its elements are ", NameOf(key.dtype),
                        ", not f16, bf16, f32 or f64");
  }
  if (key.value_bytes > UpdateNorms::kMaxBytes) {
    return absl::StrCat("it has more than ", UpdateNorms::kMaxBytes >> 20,
                        " MiB");
  }
  return "";
}

}  // namespace

std::optional<double> NormOfChange(const Tensor& before, const Tensor& after) {
  const std::optional<double> squares =
      SquaresOfChange(before, after, 0, after.num_elements());
  if (!squares) return std::nullopt;
  return std::sqrt(*squares);
}

UpdateNorms::UpdateNorms(TensorStore* store, RefPtr<ByteBudget> budget)
    : store_(*store), budget_(std::move(budget)) {
  budget_->SetSpare([this] { GiveBack(); });
}

UpdateNorms::~UpdateNorms() { budget_->SetSpare(nullptr); }

UpdateNorms::Place* UpdateNorms::Find(const std::string& name_space,
                                      const std::string& key) {
  Place place = {.name_space = name_space, .key = key};
  auto found =
      std::find_if(places_.begin(), places_.end(), [&](const Place& each) {
        return each.name_space == name_space && each.key == key;
      });
  if (found != places_.end()) {
    place = std::move(*found);
  } else if (places_.size() == kMaxKeys) {
    found = std::find_if(places_.begin(), places_.end(),
                         [](const Place& each) { return !each.is_under_way; });
    if (found == places_.end()) return nullptr;
  }
  if (found != places_.end()) places_.erase(found);
  places_.push_back(std::move(place));
  return &places_.back();
}

std::string UpdateNorms::WhyNoRoom(uint64_t bytes, uint64_t free_bytes) const {
  uint64_t looked_at = bytes;
  for (const Place& each : places_) {
    if (each.is_under_way) looked_at += each.bytes;
  }
  if (looked_at > kMaxBytes) return "others are looked at just now";
  return looked_at > free_bytes / 2 ? kNoRoom : "";
}

UpdateNorms::Place* UpdateNorms::FindUnderWay(const std::string& name_space,
                                              const std::string& key) {
  for (Place& each : places_) {
    if (each.is_under_way && each.name_space == name_space && each.key == key) {
      return &each;
    }
  }
  return nullptr;
}

UpdateNorms::Looked UpdateNorms::Look(const std::string& name_space,
                                      const std::string& key,
                                      uint64_t free_bytes) {
  const absl::StatusOr<StatReply> stat =
      store_.Stat({.name_space = name_space, .keys = {key}}, {});
  if (!stat.ok()) return {.why_not = std::string(stat.status().message())};
  const KeyStatus& status = stat->keys[0];
  Looked looked = {.why_not = WhyNever(status)};
  if (!looked.why_not.empty()) return looked;
  {
    MutexLock lock(&mutex_);
    Place* const place = Find(name_space, key);
    if (place == nullptr) return {.why_not = "others are looked at just now"};
    looked.norm = place->norm;
    if (place->is_under_way) {
      if (place->has_given_back) looked.why_not = kNoRoom;
      return looked;
    }
    looked.why_not = WhyNoRoom(status.value_bytes, free_bytes);
    if (!looked.why_not.empty()) return looked;
    place->is_under_way = true;
    place->bytes = status.value_bytes;
  }
  PullBefore(name_space, key, status.value_bytes);
  return looked;
}

void UpdateNorms::PullBefore(const std::string& name_space,
                             const std::string& key, uint64_t bytes) {
  store_.Pull(RequestFor(name_space, key, 0), ContextFor(bytes),
              [weak = weak_from_this(), name_space, key,
               bytes](absl::StatusOr<PullReply> reply) {
                const std::shared_ptr<UpdateNorms> norms = weak.lock();
                if (norms == nullptr) return;
                if (!reply.ok()) return norms->End(name_space, key, {});
                Value& before = reply->values.front();
                const Version version = before.version;
                norms->Hold(name_space, key, &Place::before, std::move(before));
                norms->PullAfter(name_space, key, version, bytes);
              });
}

void UpdateNorms::PullAfter(const std::string& name_space,
                            const std::string& key, Version before,
                            uint64_t bytes) {
  store_.Pull(RequestFor(name_space, key, before + 1), ContextFor(bytes),
              [weak = weak_from_this(), name_space,
               key](absl::StatusOr<PullReply> reply) {
                const std::shared_ptr<UpdateNorms> norms = weak.lock();
                if (norms == nullptr) return;
                if (!reply.ok()) return norms->End(name_space, key, {});
                norms->Hold(name_space, key, &Place::after,
                            std::move(reply->values.front()));
                norms->executor_.Submit([norms = norms.get(), name_space, key] {
                  norms->End(name_space, key, norms->Compute(name_space, key));
                });
              });
}

void UpdateNorms::Hold(const std::string& name_space, const std::string& key,
                       std::optional<Value> Place::*which, Value value) {
  MutexLock lock(&mutex_);
  Place* const place = FindUnderWay(name_space, key);
  if (place != nullptr && !place->has_given_back) {
    place->*which = std::move(value);
  }
}

// Where several updates have come at once, none of them is known.
std::optional<UpdateNorm> UpdateNorms::Compute(const std::string& name_space,
                                               const std::string& key) {
  double squares = 0;
  for (size_t first = 0;; first += kElementsPerTurn) {
    MutexLock lock(&mutex_);
    const Place* const place = FindUnderWay(name_space, key);
    if (place == nullptr || !place->before || !place->after) return {};
    const Version version = place->after->version;
    const Tensor& after = place->after->tensor;
    if (version != place->before->version + 1) return {};
    const std::optional<double> part =
        SquaresOfChange(place->before->tensor, after, first, kElementsPerTurn);
    if (!part) return {};
    squares += *part;
    if (first + kElementsPerTurn >= static_cast<size_t>(after.num_elements())) {
      return UpdateNorm{.version = version, .norm = std::sqrt(squares)};
    }
  }
}

void UpdateNorms::GiveBack() {
  MutexLock lock(&mutex_);
  for (Place& each : places_) {
    if (!each.is_under_way) continue;
    each.has_given_back = true;
    each.bytes = 0;
    each.before.reset();
    each.after.reset();
  }
}

void UpdateNorms::End(const std::string& name_space, const std::string& key,
                      std::optional<UpdateNorm> norm) {
  MutexLock lock(&mutex_);
  Place* const place = FindUnderWay(name_space, key);
  if (place == nullptr) return;
  place->is_under_way = false;
  place->has_given_back = false;
  place->before.reset();
  place->after.reset();
  if (norm) place->norm = norm;
}

}  // namespace tensorkv
