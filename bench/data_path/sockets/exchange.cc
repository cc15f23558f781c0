#include "bench/data_path/sockets/exchange.h"

#include <sys/uio.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/data_path/sockets/socket.h"

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

std::vector<iovec> VectorsOf(absl::Span<const Segment> segments) {
  std::vector<iovec> vectors;
  vectors.reserve(segments.size());
  for (const Segment& segment : segments) {
    vectors.push_back({.iov_base = segment.data, .iov_len = segment.size});
  }
  return vectors;
}

absl::Status Check(const Segment& segment) {
  if (segment.expected == nullptr ||
      std::memcmp(segment.data, segment.expected, segment.size) == 0) {
    return absl::OkStatus();
  }
  constexpr size_t kMostShown = 200;
  const size_t shown = std::min(segment.size, kMostShown);
  return absl::InternalError(absl::StrCat(
      "expected \"", absl::CEscape(absl::string_view(segment.expected, shown)),
      "\", got \"", absl::CEscape(absl::string_view(segment.data, shown)),
      "\""));
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

absl::Status Exchange::Run(int connection) {
  RETURN_IF_ERROR(SendAll(connection, VectorsOf(request_)));
  RETURN_IF_ERROR(ReceiveAll(connection, VectorsOf(reply_)));
  for (const Segment& segment : reply_) RETURN_IF_ERROR(Check(segment));
  return absl::OkStatus();
}

}  // namespace tensorkv::bench
