#include "tests/testing/fake_device_hub.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace tensorkv::testing {

std::string FakeDeviceHub::NewId() {
  MutexLock lock(&mutex_);
  std::string id = absl::StrCat("id ", ++num_ids_);
  id.resize(kIdBytes);
  groups_[id];
  return id;
}

std::shared_ptr<FakeDeviceHub::Member> FakeDeviceHub::Join(
    const std::string& id, uint32_t rank, uint32_t size) {
  MutexLock lock(&mutex_);
  const auto found = groups_.find(id);
  if (found == groups_.end()) return nullptr;
  Group& group = found->second;
  group.size = size;
  if (std::exchange(group.has_come[rank], true)) return nullptr;
  return std::make_shared<Member>(this, &group, rank);
}

// Messages of other sizes stand still, as what is never received does.
void FakeDeviceHub::Match(Group& group, std::pair<uint32_t, uint32_t> pair) {
  std::deque<Message>& sent = group.sent[pair];
  std::deque<Message>& received = group.received[pair];
  while (!sent.empty() && !received.empty() &&
         sent.front().piece.size_bytes == received.front().piece.size_bytes) {
    std::memcpy(received.front().piece.data, sent.front().piece.data,
                sent.front().piece.size_bytes);
    sent.front().batch->EndOne();
    received.front().batch->EndOne();
    sent.pop_front();
    received.pop_front();
  }
}

FakeDeviceHub::Member::~Member() {
  MutexLock lock(&hub_.mutex_);
  for (const std::shared_ptr<Batch>& batch : batches_) {
    if (batch->num_left == 0) continue;
    batch->is_given_up = true;
    for (auto* const messages : {&group_.sent, &group_.received}) {
      for (auto& [pair, queue] : *messages) {
        std::erase_if(queue, [&](const Message& message) {
          return message.batch == batch;
        });
      }
    }
    if (batch->open) batch->open();
  }
}

bool FakeDeviceHub::Member::has_met() const {
  MutexLock lock(&hub_.mutex_);
  return group_.has_come.size() == group_.size;
}

bool FakeDeviceHub::Start(Group& group, uint32_t rank,
                          const std::shared_ptr<Batch>& batch,
                          FakeStreamHandle& stream) {
  for (Piece& piece : batch->pieces) {
    piece.data = stream.Find(piece.data, piece.size_bytes);
    if (piece.data == nullptr) return false;
  }
  for (const Piece& piece : batch->pieces) {
    const auto pair = piece.is_sent ? std::pair(rank, piece.peer)
                                    : std::pair(piece.peer, rank);
    (piece.is_sent ? group.sent : group.received)[pair].push_back(
        {piece, batch});
    Match(group, pair);
  }
  return true;
}

void FakeDeviceHub::Member::Exchange(std::vector<Piece> pieces,
                                     FakeStreamHandle* stream) {
  if (pieces.empty()) return;
  const auto batch = std::make_shared<Batch>();
  batch->num_left = pieces.size();
  batch->pieces = std::move(pieces);
  {
    MutexLock lock(&hub_.mutex_);
    batches_.push_back(batch);
  }
  stream->Enqueue([hub = &hub_, group = &group_, rank = rank_, batch,
                   stream](std::function<void()> open) {
    MutexLock lock(&hub->mutex_);
    batch->open = std::move(open);
    if (!batch->is_given_up) return hub->Start(*group, rank, batch, *stream);
    batch->open();
    return true;
  });
}

}  // namespace tensorkv::testing
