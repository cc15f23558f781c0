#include "bench/data_path/peers/workload.h"

#include "absl/strings/str_cat.h"

namespace tensorkv::bench {

absl::string_view NameOf(Verb verb) {
  switch (verb) {
    case Verb::kPush:
      return "push";
    case Verb::kPull:
      return "pull";
    case Verb::kPushPull:
      return "pushpull";
  }
  return "";
}

std::string SizeText(const Workload& workload) {
  const std::string bytes = ByteText(workload.bytes_per_key);
  if (workload.num_keys == 1) return bytes;
  return absl::StrCat(workload.num_keys, "x", bytes);
}

std::string ByteText(int64_t bytes) {
  constexpr absl::string_view kUnits[] = {"B", "KiB", "MiB", "GiB"};
  int unit = 0;
  while (unit < 3 && bytes > 0 && bytes % 1024 == 0) {
    bytes /= 1024;
    ++unit;
  }
  return absl::StrCat(bytes, kUnits[unit]);
}

std::string KeyText(int lane, int64_t index) {
  return absl::StrCat("k", lane, ".", index);
}

}  // namespace tensorkv::bench
