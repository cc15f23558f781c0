#include "service/status/update_norms.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/statusor.h"
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
  request.max_reply_bytes = UpdateNorms::kMaxBytes;
  request.entries.push_back({.key = key, .min_version = min_version});
  return request;
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

UpdateNorms::LookedAt& UpdateNorms::Find(const std::string& name_space,
                                         const std::string& key) {
  const auto found =
      std::find_if(looks_.begin(), looks_.end(), [&](const LookedAt& each) {
        return each.name_space == name_space && each.key == key;
      });
  LookedAt look = {.name_space = name_space, .key = key};
  if (found != looks_.end()) {
    look = std::move(*found);
    looks_.erase(found);
  } else if (looks_.size() == kMaxKeys) {
    looks_.pop_front();
  }
  looks_.push_back(std::move(look));
  return looks_.back();
}

std::optional<UpdateNorm> UpdateNorms::Look(const std::string& name_space,
                                            const std::string& key) {
  std::optional<UpdateNorm> norm;
  {
    MutexLock lock(&mutex_);
    LookedAt& look = Find(name_space, key);
    if (look.is_under_way) return look.norm;
    look.is_under_way = true;
    norm = look.norm;
  }
  PullBefore(name_space, key);
  return norm;
}

void UpdateNorms::PullBefore(const std::string& name_space,
                             const std::string& key) {
  store_.Pull(RequestFor(name_space, key, 0), {.timeout = kPatience},
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
      RequestFor(name_space, key, before.version + 1), {.timeout = kPatience},
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
  for (LookedAt& each : looks_) {
    if (each.name_space != name_space || each.key != key) continue;
    each.is_under_way = false;
    if (norm) each.norm = norm;
  }
}

}  // namespace tensorkv
