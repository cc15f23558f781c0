#include "bench/data_path/sockets/segment_stream.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::bench {
namespace {

using ::tensorkv::testing::StatusIs;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SegmentStreamTest : public ::testing::Test {
 protected:
  // What the next `count` vectors say.
  std::vector<std::string> Next(size_t count) const {
    std::vector<iovec> vectors(count);
    vectors.resize(stream_.Fill(absl::MakeSpan(vectors)));
    std::vector<std::string> texts;
    for (const iovec& vector : vectors) {
      texts.emplace_back(static_cast<char*>(vector.iov_base), vector.iov_len);
    }
    return texts;
  }

  absl::Status Advance(size_t size_bytes) {
    return stream_.Advance(size_bytes,
                           [this](int call) { done_.push_back(call); });
  }

  // What arrives.
  absl::Status Receive(absl::string_view bytes) {
    std::vector<iovec> vectors(16);
    const int count = stream_.Fill(absl::MakeSpan(vectors));
    size_t copied = 0;
    for (int i = 0; i < count && copied < bytes.size(); ++i) {
      const size_t size = std::min(vectors[i].iov_len, bytes.size() - copied);
      std::memcpy(vectors[i].iov_base, bytes.data() + copied, size);
      copied += size;
    }
    return Advance(bytes.size());
  }

  SegmentStream stream_;
  std::vector<int> done_;
};

TEST_F(SegmentStreamTest, GoesOnInTheMiddleOfASegment) {
  Exchange exchange;
  exchange.Send("abcdef");
  exchange.SendValues("123", 3);
  stream_.Add(1, exchange.request());

  ASSERT_OK(Advance(4));

  EXPECT_THAT(Next(8), ElementsAre("ef", "123"));
  EXPECT_THAT(done_, IsEmpty());
}

TEST_F(SegmentStreamTest, CallsFollowEachOtherAndAreReportedWhenComplete) {
  Exchange first;
  first.Send("first");
  Exchange second;
  second.Send("second");
  stream_.Add(1, first.request());
  stream_.Add(2, second.request());

  EXPECT_THAT(Next(8), ElementsAre("first", "second"));
  ASSERT_OK(Advance(5));
  EXPECT_THAT(done_, ElementsAre(1));
  ASSERT_OK(Advance(6));
  EXPECT_THAT(done_, ElementsAre(1, 2));
  EXPECT_TRUE(stream_.empty());
}

TEST_F(SegmentStreamTest, OneMoveMayCompleteSeveralCalls) {
  Exchange first;
  first.Send("first");
  Exchange second;
  second.Send("second");
  stream_.Add(1, first.request());
  stream_.Add(2, second.request());

  ASSERT_OK(Advance(11));

  EXPECT_THAT(done_, ElementsAre(1, 2));
}

TEST_F(SegmentStreamTest, FillsNoMoreVectorsThanThereAre) {
  Exchange exchange;
  exchange.Send("a");
  exchange.SendValues("b", 1);
  stream_.Add(1, exchange.request());

  EXPECT_THAT(Next(1), ElementsAre("a"));
}

TEST_F(SegmentStreamTest, ExpectedBytesAndValuesAreTaken) {
  std::string room(3, '?');
  Exchange exchange;
  exchange.Expect("$3\r\n");
  exchange.ReceiveValues(room.data(), room.size());
  exchange.Expect("\r\n");
  stream_.Add(1, exchange.reply());

  ASSERT_OK(Receive("$3\r"));
  ASSERT_OK(Receive("\nabc\r\n"));

  EXPECT_EQ(room, "abc");
  EXPECT_THAT(done_, ElementsAre(1));
}

TEST_F(SegmentStreamTest, OtherBytesAreAnErrorBeforeTheReplyIsComplete) {
  Exchange exchange;
  exchange.Expect("STORED AND MUCH MORE\r\n");
  stream_.Add(1, exchange.reply());

  EXPECT_THAT(Receive("ERROR\r\n"),
              StatusIs(absl::StatusCode::kInternal,
                       AllOf(HasSubstr("STORED"), HasSubstr("ERROR\\r\\n"))));
}

}  // namespace
}  // namespace tensorkv::bench
