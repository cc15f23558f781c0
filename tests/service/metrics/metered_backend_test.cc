#include "service/metrics/metered_backend.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/service/metrics/exposition.h"
#include "tests/testing/fake_alarms.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::_;
using testing::Exposition;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::Return;
using ::testing::SizeIs;
using testing::StatusIs;

class MockBackend : public Backend {
 public:
  MOCK_METHOD(absl::string_view, name, (), (const, override));
  MOCK_METHOD(bool, is_host, (), (const, override));
  MOCK_METHOD(DeviceHealth&, health, (), (override));
  MOCK_METHOD(absl::StatusOr<RefPtr<Buffer>>, Allocate,
              (size_t, RefPtr<MemoryAccount>), (override));
  MOCK_METHOD(absl::Status, Submit, (Plan, PlanCallback), (override));
  MOCK_METHOD(absl::Status, Run, (Plan), (override));
  MOCK_METHOD(absl::Status, ReserveForUpdates, (absl::Span<const TensorUpdate>),
              (override));
};

class MeteredBackendTest : public ::testing::Test {
 protected:
  MeteredBackendTest()
      : inner_(*new ::testing::NiceMock<MockBackend>), backend_([this] {
          ON_CALL(inner_, name).WillByDefault(Return("cpu"));
          return MeteredBackend(std::unique_ptr<Backend>(&inner_), &clock_,
                                &registry_);
        }()) {}

  // A batch of two updates of 12 and 4 bytes.
  absl::Status ApplyTwo() {
    TensorUpdate updates[2];
    updates[0].value = {DType::kF32, 3, nullptr};
    updates[1].value = {DType::kI8, 4, nullptr};
    return backend_.Apply(updates);
  }

  prometheus::Registry registry_;
  FakeAlarms clock_;
  MockBackend& inner_;  // owned by backend_
  MeteredBackend backend_;
};

TEST_F(MeteredBackendTest, ApplyIsTimed) {
  EXPECT_CALL(inner_, Run).WillOnce([&](const Plan& plan) {
    EXPECT_THAT(plan.updates, SizeIs(2));
    clock_.Advance(absl::Milliseconds(30));
    return absl::OkStatus();
  });

  ASSERT_OK(ApplyTwo());

  const std::string text = Exposition(registry_);
  EXPECT_THAT(text,
              HasSubstr("tensorkv_update_seconds_sum{device=\"cpu\"} 0.03\n"));
  EXPECT_THAT(text,
              HasSubstr("tensorkv_update_seconds_count{device=\"cpu\"} 1\n"));
}

TEST_F(MeteredBackendTest, BatchAndBytesAreCounted) {
  EXPECT_CALL(inner_, Run).WillOnce(Return(absl::OkStatus()));

  ASSERT_OK(ApplyTwo());

  const std::string text = Exposition(registry_);
  EXPECT_THAT(
      text, HasSubstr("tensorkv_update_batch_tensors_sum{device=\"cpu\"} 2\n"));
  EXPECT_THAT(text,
              HasSubstr("tensorkv_updated_bytes_total{device=\"cpu\"} 16\n"));
  EXPECT_THAT(text,
              HasSubstr("tensorkv_update_failures_total{device=\"cpu\"} 0\n"));
}

TEST_F(MeteredBackendTest, FailuresAreCountedAndPassedOn) {
  EXPECT_CALL(inner_, Run).WillOnce(Return(absl::InternalError("broken")));

  EXPECT_THAT(ApplyTwo(), StatusIs(absl::StatusCode::kInternal, "broken"));

  const std::string text = Exposition(registry_);
  EXPECT_THAT(text,
              HasSubstr("tensorkv_update_failures_total{device=\"cpu\"} 1\n"));
  EXPECT_THAT(text,
              HasSubstr("tensorkv_updated_bytes_total{device=\"cpu\"} 0\n"));
}

TEST_F(MeteredBackendTest, SubmittedBatchIsTimedUntilItIsDone) {
  PlanCallback end;
  EXPECT_CALL(inner_, Submit).WillOnce([&](const Plan&, PlanCallback done) {
    end = std::move(done);
    return absl::OkStatus();
  });
  TensorUpdate update;
  update.value = {DType::kF32, 3, nullptr};
  absl::Status ended = absl::UnknownError("not called");
  EXPECT_OK(backend_.Submit({.updates = {&update, 1}},
                            [&](absl::Status status) { ended = status; }));
  clock_.Advance(absl::Milliseconds(20));

  std::move(end)(absl::OkStatus());

  EXPECT_OK(ended);
  const std::string text = Exposition(registry_);
  EXPECT_THAT(text,
              HasSubstr("tensorkv_update_seconds_sum{device=\"cpu\"} 0.02\n"));
  EXPECT_THAT(text,
              HasSubstr("tensorkv_updated_bytes_total{device=\"cpu\"} 12\n"));
}

TEST_F(MeteredBackendTest, CopiedBytesAreCountedByDirection) {
  EXPECT_OK(backend_.CopyToDevice({{.size_bytes = 3}, {.size_bytes = 4}}));
  backend_.CopyToHost({{.size_bytes = 5}}, [](absl::Status) {});

  const std::string text = Exposition(registry_);
  EXPECT_THAT(text, HasSubstr("tensorkv_copied_bytes_total{device=\"cpu\","
                              "direction=\"to_device\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("tensorkv_copied_bytes_total{device=\"cpu\","
                              "direction=\"to_host\"} 5\n"));
}

TEST_F(MeteredBackendTest, EverythingElsePassesThrough) {
  EXPECT_CALL(inner_, Allocate(7, _))
      .WillOnce(Return(absl::ResourceExhaustedError("full")));
  EXPECT_CALL(inner_, is_host()).WillOnce(Return(true));
  DeviceHealth health("cpu");
  EXPECT_CALL(inner_, health()).WillOnce(::testing::ReturnRef(health));
  EXPECT_CALL(inner_, Run(Field(&Plan::uploads, SizeIs(1))))
      .WillOnce(Return(absl::InternalError("up")));
  EXPECT_CALL(inner_, Submit(Field(&Plan::downloads, SizeIs(2)), _))
      .WillOnce([](const Plan&, PlanCallback done) {
        std::move(done)(absl::InternalError("down"));
        return absl::OkStatus();
      });
  EXPECT_CALL(inner_, Run(Field(&Plan::zeros, SizeIs(1))))
      .WillOnce(Return(absl::OkStatus()));
  const MutableTensorView view;

  EXPECT_EQ(backend_.name(), "cpu");
  EXPECT_TRUE(backend_.is_host());
  EXPECT_EQ(&backend_.health(), &health);
  EXPECT_THAT(backend_.Allocate(7, nullptr),
              StatusIs(absl::StatusCode::kResourceExhausted, "full"));
  EXPECT_OK(backend_.Zero({&view, 1}));
  EXPECT_THAT(backend_.CopyToDevice({MemoryCopy()}),
              StatusIs(absl::StatusCode::kInternal, "up"));
  absl::Status copied;
  backend_.CopyToHost({{}, {}}, [&](absl::Status status) { copied = status; });
  EXPECT_THAT(copied, StatusIs(absl::StatusCode::kInternal, "down"));
}

}  // namespace
}  // namespace tensorkv
