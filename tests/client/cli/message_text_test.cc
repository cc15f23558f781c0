#include "client/cli/message_text.h"

#include "contract/proto_codec.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/testing/odd_names.h"

namespace tensorkv {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Json = nlohmann::json;

KeyStatus Weights() {
  KeyStatus status;
  status.set_key("fc1.w");
  status.set_dtype(v1::DTYPE_BF16);
  status.add_shape(2);
  status.add_shape(3);
  status.set_version(12);
  status.set_value_bytes(2048);
  ToProto(RuleSpec{.name = "sgd", .hyperparameters = {{"momentum", 0.5}}},
          status.mutable_rule());
  ToProto(Multipliers(), status.mutable_multipliers());
  status.add_states("master");
  status.add_states("momentum");
  return status;
}

TEST(MessageJsonTest, HasTheNamesAndTheDefaultsOfTheMessage) {
  const Json json = Json::parse(MessageJson(Weights()));

  EXPECT_EQ(json["key"], "fc1.w");
  EXPECT_EQ(json["dtype"], "DTYPE_BF16");
  EXPECT_EQ(json["shape"], Json({"2", "3"}));
  EXPECT_EQ(json["state_bytes"], "0");
  EXPECT_EQ(json["rule"]["hyperparameters"]["momentum"], 0.5);
  EXPECT_FALSE(json.contains("digest"));
}

TEST(MessageJsonTest, EveryNameComesBackOnOneLine) {
  for (const std::string& name : testing::OddNames(1024)) {
    KeyStatus status;
    status.set_key(name);
    for (const std::string& text :
         {MessageJson(status), MessageJson(name, v1::PushResult())}) {
      EXPECT_EQ(text.find('\n'), std::string::npos) << name;
      EXPECT_EQ(Json::parse(text)["key"], name);
    }
  }
  EXPECT_TRUE(Json::accept(MessageJson("\xff\xfe", v1::PushResult())));
}

TEST(MessageTextTest, HasALineForEachField) {
  KeyStatus status = Weights();
  status.set_digest(0xab);

  EXPECT_EQ(MessageText(status),
            "key:                        fc1.w\n"
            "dtype:                      bf16\n"
            "shape:                      [2,3]\n"
            "version:                    12\n"
            "value_bytes:                2.0 KiB\n"
            "state_bytes:                0 B\n"
            "rule:                       sgd(momentum=0.5)\n"
            "digest:                     00000000000000ab\n"
            "update_count:               0\n"
            "multipliers.learning_rate:  1\n"
            "multipliers.weight_decay:   1\n"
            "learning_rate:              0\n"
            "weight_decay:               0\n"
            "states:                     [master,momentum]\n");
}

TEST(MessageTextTest, MessagesWithinHaveTheirPathOrALineEach) {
  NamespaceStatus status;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        name: "n"
        config {
          mode: MODE_SYNC
          gradient_guard { max_norm: 1.5 on_large_norm: ON_LARGE_NORM_CLIP }
        }
        rules {
          key_pattern: "*.bias"
          rule { name: "sgd" }
        }
        rules { rule { name: "assign" } }
        memory { values: 1536 }
        device_memory {
          device: "cuda:0"
          memory { state: 2 }
        }
        waits {
          reason: WAIT_REASON_ROUND
          calls_waiting: 2
          calls_ended: 3
          waited { seconds: 1 nanos: 500000000 }
        }
        guard_counts { not_finite: 1 }
        guard_counts { rank: 3 too_large: 2 }
      )pb",
      &status));

  EXPECT_THAT(
      MessageText(status),
      AllOf(HasSubstr("config.mode:                          sync\n"),
            HasSubstr("config.gradient_guard.on_large_norm:  clip\n"),
            HasSubstr("rules:                                "
                      "key_pattern=*.bias rule=sgd\n"),
            HasSubstr("rules:                                "
                      "key_pattern=\"\" rule=assign\n"),
            HasSubstr("memory.values:                        1.5 KiB\n"),
            HasSubstr("device=cuda:0 memory.values=0 B memory.state=2 B"),
            HasSubstr("reason=round calls_waiting=2 calls_ended=3 "
                      "waited=1.5s\n"),
            HasSubstr(" not_finite=1 too_large=0\n"),
            HasSubstr(" rank=3 not_finite=0 too_large=2\n")));
  status.mutable_config()->clear_gradient_guard();
  EXPECT_THAT(MessageText(status), Not(HasSubstr("gradient_guard")));
}

TEST(MessageTextTest, TimesAreThoseOfTheCalendar) {
  v1::CheckpointStatus status;
  status.mutable_create_time()->set_seconds(86400);

  EXPECT_THAT(MessageText(status),
              HasSubstr("create_time:    1970-01-02T00:00:00Z\n"));
}

TEST(MessageTextTest, MapsAreInByteOrder) {
  v1::SnapshotStatus status;
  for (const char* name : {"c", "a", "b"}) {
    (*status.mutable_metadata())[name] = "1";
  }

  EXPECT_THAT(MessageText(status), HasSubstr("metadata:    [a=1,b=1,c=1]\n"));
}

TEST(MessageTableTest, SaysWhatIsAbsent) {
  v1::SnapshotStatus status;
  status.set_num_keys(0);

  EXPECT_EQ(MessageTable({&status}, {"time_left", "num_keys", "bytes"}),
            "time_left  num_keys  bytes\n"
            "-          0         -\n");
}

TEST(MessageTableTest, HasALinePerMessageAndAColumnPerPath) {
  const KeyStatus weights = Weights();
  KeyStatus other;
  other.set_key("b");
  other.mutable_rule()->set_name("assign");

  EXPECT_EQ(MessageTable({&weights, &other},
                         {"key", "shape", "rule", "multipliers.learning_rate"}),
            "key    shape  rule               learning_rate\n"
            "fc1.w  [2,3]  sgd(momentum=0.5)  1\n"
            "b      []     assign             -\n");
}

TEST(TableTextTest, ColumnsAreAlignedAndLinesEndWithoutBlanks) {
  EXPECT_EQ(TableText({{"a", "b"}, {"long", ""}, {"x", "yy"}}),
            "a     b\nlong\nx     yy\n");
}

TEST(TableTextTest, ColumnsAreAlignedByCharacters) {
  EXPECT_EQ(TableText({{"k\u00e4y/\u2713", "b"}, {"x", "b"}}),
            "k\u00e4y/\u2713  b\nx      b\n");
}

TEST(TableTextTest, CellsAreNoCommandsForTheTerminal) {
  EXPECT_EQ(TableText({{"\x1b[2Ja", "\u009b2J"}}), " [2Ja   2J\n");
}

}  // namespace
}  // namespace tensorkv
