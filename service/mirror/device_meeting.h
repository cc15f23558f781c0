// Says whether, and under which id, the devices of the servers meet.

#ifndef TENSORKV_SERVICE_MIRROR_DEVICE_MEETING_H_
#define TENSORKV_SERVICE_MIRROR_DEVICE_MEETING_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tensorkv {

// DeviceMeeting holds what the leader knows of attempts between devices. An id
// is of the links that were there when it was made, and of no use after an
// attempt that has failed: some devices may have parted. Where such attempts
// fail again and again, as behind a firewall, others go between the servers in
// their place: none after the first failure, then 1, 3, 7 and so on, until a
// server is started again. Not thread-safe.
class DeviceMeeting {
 public:
  // Returns whether the next attempt, of these links, is one between devices.
  bool TakeNext(const std::vector<uint64_t>& links) {
    if (links != links_) {
      SetId(links, "");
      num_failed_ = 0;
      num_left_out_ = 0;
    }
    if (num_left_out_ == 0) return true;
    --num_left_out_;
    return false;
  }

  // Empty: these links need another one.
  std::string IdOf(const std::vector<uint64_t>& links) const {
    return links == links_ ? id_ : "";
  }
  void SetId(std::vector<uint64_t> links, std::string id) {
    links_ = std::move(links);
    id_ = std::move(id);
  }

  // Takes in how an attempt between devices has ended.
  void End(bool has_failed) {
    constexpr int kMostDoublings = 10;
    if (has_failed) {
      num_left_out_ = (uint32_t{1} << num_failed_) - 1;
      num_failed_ = std::min(num_failed_ + 1, kMostDoublings);
      id_.clear();
    } else {
      num_failed_ = 0;
    }
  }

 private:
  std::vector<uint64_t> links_;
  std::string id_;
  // In a row.
  int num_failed_ = 0;
  uint32_t num_left_out_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_DEVICE_MEETING_H_
