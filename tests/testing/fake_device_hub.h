// Fake devices of one process that meet, and the bytes that go between them.

#ifndef TENSORKV_TESTS_TESTING_FAKE_DEVICE_HUB_H_
#define TENSORKV_TESTS_TESTING_FAKE_DEVICE_HUB_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "tests/testing/fake_stream_handle.h"

namespace tensorkv::testing {

// What NCCL does for one process after the other. Nobody hears that a member
// has left, or has not come: its transfers stand still. Thread-safe.
class FakeDeviceHub {
 public:
  // One message, in memory of the device.
  struct Piece {
    uint32_t peer = 0;
    bool is_sent = false;
    char* data = nullptr;
    size_t size_bytes = 0;
  };
  class Member;

  // As long as those of NCCL.
  static constexpr size_t kIdBytes = 128;
  std::string NewId();

  // Null: it is no id of this hub, or that rank has come before.
  std::shared_ptr<Member> Join(const std::string& id, uint32_t rank,
                               uint32_t size);

 private:
  // What a member has put on its stream at once.
  struct Batch {
    std::vector<Piece> pieces;
    size_t num_left = 0;
    // Has the stream go on; null: it has not come to this.
    std::function<void()> open;
    bool is_given_up = false;

    void EndOne() {
      if (--num_left == 0) open();
    }
  };
  struct Message {
    Piece piece;
    std::shared_ptr<Batch> batch;
  };
  struct Group {
    uint32_t size = 0;
    std::map<uint32_t, bool> has_come;
    // By who sends and who receives.
    std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> sent;
    std::map<std::pair<uint32_t, uint32_t>, std::deque<Message>> received;
  };

  // A stream has come to a batch. False if some memory is not its device's.
  bool Start(Group& group, uint32_t rank, const std::shared_ptr<Batch>& batch,
             FakeStreamHandle& stream);
  // Copies what both sides have come to.
  static void Match(Group& group, std::pair<uint32_t, uint32_t> pair);

  Mutex mutex_;
  uint64_t num_ids_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::string, Group> groups_ ABSL_GUARDED_BY(mutex_);
};

class FakeDeviceHub::Member {
 public:
  Member(FakeDeviceHub* hub, Group* group, uint32_t rank)
      : hub_(*hub), group_(*group), rank_(rank) {}
  // It leaves: its streams go on.
  ~Member();

  // Whether all are there.
  bool has_met() const;

  // Puts the transfers on the stream.
  void Exchange(std::vector<Piece> pieces, FakeStreamHandle* stream);

 private:
  FakeDeviceHub& hub_;
  Group& group_;
  const uint32_t rank_;
  std::vector<std::shared_ptr<Batch>> batches_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_TESTING_FAKE_DEVICE_HUB_H_
