#include "bench/data_path/sockets/exchange.h"

namespace tensorkv::bench {
namespace {

// Appends to the last text where that is still the last segment.
std::string* TextFor(std::deque<std::string>* texts,
                     std::vector<Segment>* segments) {
  const bool continues = !texts->empty() && !segments->empty() &&
                         segments->back().data == texts->back().data();
  if (!continues) {
    texts->emplace_back();
    segments->emplace_back();
  }
  return &texts->back();
}

}  // namespace

void Exchange::Send(absl::string_view text) {
  std::string* sent = TextFor(&sent_texts_, &request_);
  sent->append(text.data(), text.size());
  request_.back() = {.data = sent->data(), .size = sent->size()};
}

void Exchange::SendValues(const char* values, size_t size_bytes) {
  request_.push_back({.data = const_cast<char*>(values), .size = size_bytes});
}

void Exchange::Expect(absl::string_view text) {
  std::string* received = TextFor(&received_texts_, &reply_);
  if (expected_texts_.size() < received_texts_.size()) {
    expected_texts_.emplace_back();
  }
  expected_texts_.back().append(text.data(), text.size());
  received->resize(received->size() + text.size());
  reply_.back() = {.data = received->data(),
                   .size = received->size(),
                   .expected = expected_texts_.back().data()};
}

void Exchange::ReceiveValues(char* values, size_t size_bytes) {
  reply_.push_back({.data = values, .size = size_bytes});
}

}  // namespace tensorkv::bench
