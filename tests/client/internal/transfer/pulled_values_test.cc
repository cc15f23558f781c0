#include "client/internal/transfer/pulled_values.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "client/internal/transfer/grpc_channel.h"
#include "client/internal/transfer/message_bytes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_stream_service.h"
#include "tests/client/patterned_tensor.h"
#include "tests/contract/generated_codec.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/tensor_values.h"

namespace tensorkv {
namespace {

using ::tensorkv::testing::BytesOf;
using ::tensorkv::testing::FakeStreamService;
using ::tensorkv::testing::Patterned;
using ::tensorkv::testing::StatusIs;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Chunks = std::vector<v1::PullChunk>;

class PulledValuesTest : public ::testing::Test {
 protected:
  PulledValuesTest()
      : channel_(OpenBulkChannel(service_.Start(), /*max_message_bytes=*/
                                 1 << 20)) {
    service_.values = {{3, Patterned(2500, 1)}, {4, Patterned(100, 2)}};
    service_.part_bytes = 1000;
  }

  // Changes what the server sends, whatever the stripe.
  void Edit(std::function<void(Chunks*)> edit) {
    service_.edit = [edit](const v1::Stripe&, Chunks* chunks) { edit(chunks); };
  }

  absl::Status Receive(PulledValues& values) {
    StripeStream stream(channel_, &server_, PathOf(Method::kPushPullStream),
                        CallDeadline(absl::Seconds(30)));
    v1::PushChunk manifest;
    manifest.mutable_manifest();
    stream.Write(*Serialize(manifest, 1 << 20), /*is_last=*/true);
    return stream.Finish(values.Receive(stream, Stripe()));
  }

  FakeStreamService service_;
  std::shared_ptr<grpc::Channel> channel_;
  ServerIncarnation server_;
  const RefPtr<BufferPool> buffers_ = MakeRefCounted<BufferPool>(1 << 20);
};

TEST_F(PulledValuesTest, ValuesArriveWhole) {
  PulledValues values(2, *buffers_);

  ASSERT_OK(Receive(values));

  const PullReply reply = values.Release();
  ASSERT_THAT(reply.values, SizeIs(2));
  EXPECT_EQ(reply.values[0].version, 3);
  EXPECT_EQ(reply.values[1].version, 4);
  EXPECT_EQ(BytesOf(reply.values[0].tensor), BytesOf(Patterned(2500, 1)));
  EXPECT_EQ(BytesOf(reply.values[1].tensor), BytesOf(Patterned(100, 2)));
}

TEST_F(PulledValuesTest, ValuesWithoutElementsHaveNoParts) {
  service_.values = {{3, Patterned(0)}};
  PulledValues values(1, *buffers_);

  ASSERT_OK(Receive(values));

  EXPECT_EQ(values.Release().values[0].version, 3);
}

TEST_F(PulledValuesTest, ReplyToNoEntriesIsEmpty) {
  service_.values = {};
  PulledValues values(0, *buffers_);

  ASSERT_OK(Receive(values));

  EXPECT_THAT(values.Release().values, IsEmpty());
}

TEST_F(PulledValuesTest, PartsInAnUnusualFormAreTakenToo) {
  Edit([](Chunks* chunks) {
    for (v1::PullChunk& chunk : *chunks) {
      chunk.GetReflection()->MutableUnknownFields(&chunk)->AddVarint(99, 1);
    }
  });
  PulledValues values(2, *buffers_);

  ASSERT_OK(Receive(values));

  EXPECT_EQ(BytesOf(values.Release().values[0].tensor),
            BytesOf(Patterned(2500, 1)));
}

TEST_F(PulledValuesTest, PartsMayGoOnInTheNextValues) {
  service_.values.push_back({5, Patterned(0)});
  service_.values.push_back({6, Patterned(30, 3)});
  Edit([](Chunks* chunks) {
    // Those after the first 1000 bytes become one.
    v1::Part& run = *(*chunks)[2].mutable_part();
    for (size_t i = 3; i < chunks->size(); ++i) {
      *run.mutable_data() += (*chunks)[i].part().data();
    }
    chunks->resize(3);
  });
  PulledValues values(4, *buffers_);

  ASSERT_OK(Receive(values));

  const PullReply reply = values.Release();
  for (size_t i = 0; i < reply.values.size(); ++i) {
    EXPECT_EQ(BytesOf(reply.values[i].tensor),
              BytesOf(service_.values[i].tensor));
  }
}

// What a server may get wrong. The parts of the reply are three of the first
// value and one of the second.
struct Mistake {
  std::string name;
  std::function<void(Chunks*)> edit;
  std::string error;
};

class PulledValuesMistakeTest : public PulledValuesTest,
                                public ::testing::WithParamInterface<Mistake> {
};

v1::Tensor& ManifestTensor(Chunks* chunks, int value) {
  v1::PullManifest& manifest = *chunks->front().mutable_manifest();
  return *manifest.mutable_values(value)->mutable_tensor();
}
v1::Part& PartAt(Chunks* chunks, size_t i) {
  return *(*chunks)[i + 1].mutable_part();
}

INSTANTIATE_TEST_SUITE_P(
    , PulledValuesMistakeTest,
    ::testing::Values(
        Mistake{"NothingAtAll", [](Chunks* c) { c->clear(); }, "manifest"},
        Mistake{"NoManifest", [](Chunks* c) { c->erase(c->begin()); },
                "expected the manifest first"},
        Mistake{"EmptyChunk", [](Chunks* c) { c->front().Clear(); },
                "expected the manifest first"},
        Mistake{"SecondManifest",
                [](Chunks* c) { c->insert(c->begin(), c->front()); },
                "expected a part"},
        Mistake{"TooFewValues",
                [](Chunks* c) {
                  c->front().mutable_manifest()->mutable_values()->RemoveLast();
                },
                "manifest of 2 values, got 1"},
        Mistake{"TooManyValues",
                [](Chunks* c) {
                  v1::PullManifest& m = *c->front().mutable_manifest();
                  *m.add_values() = m.values(0);
                },
                "manifest of 2 values, got 3"},
        Mistake{"NoDType",
                [](Chunks* c) { ManifestTensor(c, 0).clear_dtype(); }, "dtype"},
        Mistake{"NegativeShape",
                [](Chunks* c) { ManifestTensor(c, 0).set_shape(0, -1); },
                "malformed reply"},
        Mistake{"DataInManifest",
                [](Chunks* c) {
                  ManifestTensor(c, 0).set_data(std::string(2500, 'x'));
                },
                "malformed reply"},
        Mistake{"SmallerThanItsParts",
                [](Chunks* c) { ManifestTensor(c, 0).set_shape(0, 1999); },
                "malformed reply"},
        Mistake{"LargerThanItsParts",
                [](Chunks* c) { ManifestTensor(c, 1).set_shape(0, 1 << 20); },
                "ended the stream before"},
        Mistake{"MissingEnd", [](Chunks* c) { c->pop_back(); },
                "before 100 of the 2600 bytes of stripe 0"},
        Mistake{"Twice", [](Chunks* c) { c->insert(c->begin() + 1, (*c)[1]); },
                "malformed reply"},
        Mistake{"AfterTheEnd", [](Chunks* c) { c->push_back(c->back()); },
                "malformed reply"},
        Mistake{"EmptyPart", [](Chunks* c) { PartAt(c, 1).clear_data(); },
                "malformed reply"},
        Mistake{"SpansEntries",
                [](Chunks* c) { PartAt(c, 2).mutable_data()->append("x"); },
                "malformed reply"},
        Mistake{"OffsetThatOverflows",
                [](Chunks* c) { PartAt(c, 0).set_offset(~uint64_t{0}); },
                "malformed reply"},
        Mistake{"LastEntry", [](Chunks* c) { PartAt(c, 0).set_entry(~0u); },
                "malformed reply"}),
    [](const auto& info) { return info.param.name; });

TEST_P(PulledValuesMistakeTest, IsInternal) {
  Edit(GetParam().edit);
  PulledValues values(2, *buffers_);

  EXPECT_THAT(Receive(values), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr(GetParam().error)));
}

// --- Stripes ----------------------------------------------------------------

TEST_F(PulledValuesTest, StripesOfDifferentVersionsAreInternal) {
  PulledValues values(2, *buffers_);
  ASSERT_OK(Receive(values));
  service_.values[1].version = 5;

  EXPECT_THAT(Receive(values),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("disagree about value 1: version 4 of u8[100] "
                                 "and version 5 of u8[100]")));
}

TEST_F(PulledValuesTest, StripesOfDifferentShapesAreInternal) {
  PulledValues values(2, *buffers_);
  ASSERT_OK(Receive(values));
  service_.values[0].tensor = Patterned(2501);

  EXPECT_THAT(Receive(values), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("disagree about value 0")));
}

TEST_F(PulledValuesTest, SizeThatOverflowsIsInternal) {
  Edit([](Chunks* chunks) {
    for (v1::Value& value :
         *chunks->front().mutable_manifest()->mutable_values()) {
      value.mutable_tensor()->set_shape(0, int64_t{1} << 62);
    }
  });
  PulledValues values(2, *buffers_);

  EXPECT_THAT(Receive(values), StatusIs(absl::StatusCode::kInternal));
}

TEST_F(PulledValuesTest, MemoryThatIsNotThereIsResourceExhausted) {
  Edit([](Chunks* chunks) {
    chunks->front()
        .mutable_manifest()
        ->mutable_values(0)
        ->mutable_tensor()
        ->set_shape(0, int64_t{1} << 60);
  });
  PulledValues values(2, *buffers_);

  EXPECT_THAT(Receive(values), StatusIs(absl::StatusCode::kResourceExhausted));
}

TEST_F(PulledValuesTest, ErrorAfterAllPartsIsTheServers) {
  service_.values = {{3, Patterned(10)}};
  Edit([this](Chunks*) {
    service_.status = grpc::Status(grpc::StatusCode::DATA_LOSS, "digest");
  });
  PulledValues values(1, *buffers_);

  EXPECT_THAT(Receive(values), StatusIs(absl::StatusCode::kDataLoss, "digest"));
}

}  // namespace
}  // namespace tensorkv
