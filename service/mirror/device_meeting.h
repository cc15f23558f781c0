// Decides whether the devices of the servers exchange ranges, and by which id.

#ifndef TENSORKV_SERVICE_MIRROR_DEVICE_MEETING_H_
#define TENSORKV_SERVICE_MIRROR_DEVICE_MEETING_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tensorkv {

// DeviceMeeting is what the leader knows of attempts between devices. Devices
// join a group of NCCL by an id, which the leader makes for the links that are
// there, and drops after an attempt that has failed: some devices may have left
// the group. Where attempts between devices fail again and again, as behind a
// firewall, some attempts go by calls of the servers instead: none after the
// first failure, then 1, 3, 7 and so on, until a server is started again. Not
// thread-safe.
class DeviceMeeting {
 public:
  // Returns whether the next attempt, of members with these links, is to go
  // between devices, and counts it if it is not. Call it once for an attempt.
  bool ChooseForNext(const std::vector<uint64_t>& links) {
    if (links != links_) {
      SetId(links, "");
      num_failed_ = 0;
      num_left_out_ = 0;
    }
    if (num_left_out_ == 0) return true;
    --num_left_out_;
    return false;
  }

  // Returns the id by which the devices of these links meet; empty if one has
  // to be made.
  std::string IdOf(const std::vector<uint64_t>& links) const {
    return links == links_ ? id_ : "";
  }
  void SetId(std::vector<uint64_t> links, std::string id) {
    links_ = std::move(links);
    id_ = std::move(id);
  }

  // Remembers how an attempt between devices has ended.
  void RecordEnd(bool has_failed) {
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
  // Counts the failures since the last success.
  int num_failed_ = 0;
  uint32_t num_left_out_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_MIRROR_DEVICE_MEETING_H_
