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

template <typename T>
std::optional<double> NormOf(const Tensor& before, const Tensor& after) {
  const absl::StatusOr<absl::Span<const T>> old_elements =
      ElementsOf<T>(before);
  const absl::StatusOr<absl::Span<const T>> new_elements = ElementsOf<T>(after);
  if (!old_elements.ok() || !new_elements.ok()) return std::nullopt;
  double sum = 0;
  for (size_t i = 0; i < new_elements->size(); ++i) {
    const double change = static_cast<double>((*new_elements)[i]) -
                          static_cast<double>((*old_elements)[i]);
    sum += change * change;
  }
  return std::sqrt(sum);
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
  if (before.dtype() != after.dtype() || before.shape() != after.shape()) {
    return std::nullopt;
  }
  switch (after.dtype()) {
    case DType::kF32:
      return NormOf<float>(before, after);
    case DType::kF64:
      return NormOf<double>(before, after);
    case DType::kF16:
      return NormOf<Half>(before, after);
    case DType::kBF16:
      return NormOf<BFloat16>(before, after);
    default:
      return std::nullopt;
  }
}

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
  if (looked_at > free_bytes / 2) {
    return "the budget leaves no room for a copy of it";
  }
  return "";
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
    if (place->is_under_way) return looked;
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
              [weak = weak_from_this(), name_space,
               key](absl::StatusOr<PullReply> reply) {
                const std::shared_ptr<UpdateNorms> norms = weak.lock();
                if (norms == nullptr) return;
                if (!reply.ok()) return norms->End(name_space, key, {});
                norms->PullAfter(name_space, key,
                                 std::move(reply->values.front()));
              });
}

void UpdateNorms::PullAfter(const std::string& name_space,
                            const std::string& key, Value before) {
  store_.Pull(
      RequestFor(name_space, key, before.version + 1),
      ContextFor(before.tensor.size_bytes()),
      [weak = weak_from_this(), name_space, key,
       before](absl::StatusOr<PullReply> reply) {
        const std::shared_ptr<UpdateNorms> norms = weak.lock();
        if (norms == nullptr) return;
        if (!reply.ok()) return norms->End(name_space, key, {});
        norms->executor_.Submit([norms = norms.get(), name_space, key, before,
                                 after = std::move(reply->values[0])] {
          norms->Compare(name_space, key, before, after);
        });
      });
}

// Where several updates have come at once, none of them is known.
void UpdateNorms::Compare(const std::string& name_space, const std::string& key,
                          const Value& before, const Value& after) {
  std::optional<UpdateNorm> taken;
  if (after.version == before.version + 1) {
    const std::optional<double> norm =
        NormOfChange(before.tensor, after.tensor);
    if (norm) taken = {.version = after.version, .norm = *norm};
  }
  End(name_space, key, taken);
}

void UpdateNorms::End(const std::string& name_space, const std::string& key,
                      std::optional<UpdateNorm> norm) {
  MutexLock lock(&mutex_);
  for (Place& each : places_) {
    if (each.name_space != name_space || each.key != key) continue;
    each.is_under_way = false;
    if (norm) each.norm = norm;
  }
}

}  // namespace tensorkv
