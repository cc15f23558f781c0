#include "kernels/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/nccl/nccl_status.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::StatusIs;

// What NCCL is asked, and what it answers: functions of C know nothing else.
struct FakeNccl {
  std::vector<std::string> calls;
  ncclResult_t init = ncclInProgress;
  ncclResult_t group_end = ncclInProgress;
  ncclResult_t send = ncclSuccess;
  // What ncclCommGetAsyncError tells, in turn; the last one stays.
  std::vector<ncclResult_t> async = {ncclInProgress, ncclSuccess};
  size_t num_asked = 0;
  absl::Duration now;
  // The call that is so many calls from now on fails, and does nothing.
  int calls_left = -1;
  ncclResult_t failure = ncclSystemError;
  bool has_comm = false;
  bool abort_has_failed = false;

  bool Fails() { return calls_left >= 0 && calls_left-- == 0; }
};
FakeNccl* fake = nullptr;

const auto kComm = reinterpret_cast<ncclComm_t>(uintptr_t{64});

NcclFunctions Functions() {
  NcclFunctions nccl;
  nccl.get_unique_id = [](ncclUniqueId* id) {
    if (fake->Fails()) return fake->failure;
    id->internal[0] = 'i';
    return ncclSuccess;
  };
  nccl.comm_init_rank_config = [](ncclComm_t* comm, int size, ncclUniqueId id,
                                  int rank, ncclConfig_t* config) {
    fake->calls.push_back(absl::StrCat("init ", rank, " of ", size,
                                       config->blocking == 0 ? "" : " blocks"));
    if (fake->Fails()) return fake->failure;
    *comm = id.internal[0] == 'i' ? kComm : nullptr;
    fake->has_comm = true;
    return fake->init;
  };
  nccl.comm_abort = [](ncclComm_t) {
    fake->calls.push_back("abort");
    fake->has_comm = false;
    fake->abort_has_failed = fake->Fails();
    return fake->abort_has_failed ? fake->failure : ncclSuccess;
  };
  nccl.comm_get_async_error = [](ncclComm_t, ncclResult_t* result) {
    if (fake->Fails()) return fake->failure;
    *result = fake->async[std::min(fake->num_asked, fake->async.size() - 1)];
    ++fake->num_asked;
    return ncclSuccess;
  };
  nccl.get_last_error = [](ncclComm_t) -> const char* { return "why"; };
  nccl.group_start = [] {
    fake->calls.push_back("start");
    return fake->Fails() ? fake->failure : ncclSuccess;
  };
  nccl.group_end = [] {
    fake->calls.push_back("end");
    return fake->Fails() ? fake->failure : fake->group_end;
  };
  nccl.send = [](const void*, size_t count, ncclDataType_t, int peer,
                 ncclComm_t, cudaStream_t) {
    fake->calls.push_back(absl::StrCat("send ", count, " to ", peer));
    return fake->Fails() ? fake->failure : fake->send;
  };
  nccl.recv = [](void*, size_t count, ncclDataType_t, int peer, ncclComm_t,
                 cudaStream_t) {
    fake->calls.push_back(absl::StrCat("receive ", count, " from ", peer));
    return fake->Fails() ? fake->failure : ncclSuccess;
  };
  return nccl;
}

class NcclCommunicatorTest : public ::testing::Test {
 protected:
  NcclCommunicatorTest() { fake = &nccl_; }

  absl::StatusOr<std::unique_ptr<NcclCommunicator>> Create() {
    nccl_.num_asked = 0;
    ASSIGN_OR_RETURN(const std::string id,
                     NcclCommunicator::NewId(Functions()));
    limit_ = nccl_.now + absl::Seconds(1);
    return NcclCommunicator::Create(environment_, id, /*rank=*/1, /*size=*/3,
                                    may_wait_);
  }
  absl::Status Exchange(NcclCommunicator& communicator, int looks) {
    nccl_.calls.clear();
    nccl_.num_asked = 0;
    char memory[8] = {};
    NcclCommunicator::Transfers transfers;
    transfers.sends = {{absl::MakeConstSpan(memory, 2)}, {}, {}};
    transfers.receives = {{}, {}, {absl::MakeSpan(memory + 4, 4)}};
    looks_ = looks;
    limit_ = nccl_.now + absl::Seconds(1);
    return communicator.Exchange(transfers, may_wait_);
  }

  FakeNccl nccl_;
  absl::Duration limit_;
  // Until the stream is done.
  int looks_ = 0;
  const std::function<absl::Status()> may_wait_ = [this] {
    return nccl_.now < limit_ ? absl::OkStatus()
                              : absl::DeadlineExceededError("in time");
  };
  const NcclCommunicator::Environment environment_ = {
      .nccl = Functions(),
      .begin = [] { return absl::OkStatus(); },
      .is_done = [this]() -> absl::StatusOr<bool> { return looks_-- == 0; },
      .pause = [] { fake->now += absl::Milliseconds(100); }};
};

TEST_F(NcclCommunicatorTest, IsMadeWithoutBlockingAndAbortedInTheEnd) {
  ASSERT_OK(Create());

  EXPECT_THAT(nccl_.calls, ElementsAre("init 1 of 3", "abort"));
}

TEST_F(NcclCommunicatorTest, IsAbortedWhenOthersDoNotComeInTime) {
  nccl_.async = {ncclInProgress};

  EXPECT_THAT(Create(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                 HasSubstr("3 processes: in time")));
  EXPECT_THAT(nccl_.calls, ElementsAre("init 1 of 3", "abort"));
  EXPECT_EQ(nccl_.now, absl::Seconds(1));
}

TEST_F(NcclCommunicatorTest, RefusesWhatIsNoId) {
  EXPECT_THAT(NcclCommunicator::Create(environment_, "i", 0, 2, may_wait_),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST_F(NcclCommunicatorTest, ExchangesInOneGroup) {
  const auto communicator = Create();
  ASSERT_OK(communicator);

  EXPECT_OK(Exchange(**communicator, /*looks=*/3));

  EXPECT_THAT(nccl_.calls,
              ElementsAre("start", "send 2 to 0", "receive 4 from 2", "end"));
  EXPECT_FALSE((*communicator)->is_broken());
}

TEST_F(NcclCommunicatorTest, ProcessThatEndsBreaksIt) {
  const auto communicator = Create();
  ASSERT_OK(communicator);
  nccl_.async = {ncclSuccess, ncclSuccess, ncclRemoteError};

  EXPECT_THAT(Exchange(**communicator, /*looks=*/1000),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("why")));
  EXPECT_EQ(nccl_.calls.back(), "abort");
  EXPECT_THAT(Exchange(**communicator, 0),
              StatusIs(absl::StatusCode::kUnavailable, HasSubstr("broken")));
}

TEST_F(NcclCommunicatorTest, TransferThatHangsEndsByItsDeadline) {
  const auto communicator = Create();
  ASSERT_OK(communicator);
  const absl::Duration before = nccl_.now;

  EXPECT_THAT(Exchange(**communicator, /*looks=*/1000),
              StatusIs(absl::StatusCode::kDeadlineExceeded));

  EXPECT_EQ(nccl_.calls.back(), "abort");
  EXPECT_EQ(nccl_.now, before + absl::Seconds(1));
}

// Of forming the group, of an exchange and of the end; with an error that means
// another process, and with one that does not.
TEST_F(NcclCommunicatorTest, FailureOfAnyCallEndsItAndLeavesNothingBehind) {
  for (const auto& [failure, code] :
       {std::pair(ncclSystemError, absl::StatusCode::kUnavailable),
        std::pair(ncclInternalError, absl::StatusCode::kInternal)}) {
    int num_calls = 0;
    for (bool has_failed = true; has_failed; ++num_calls) {
      SCOPED_TRACE(absl::StrCat(failure, " of call ", num_calls));
      nccl_ = FakeNccl();
      nccl_.failure = failure;
      nccl_.calls_left = num_calls;
      absl::Status status;
      {
        auto communicator = Create();
        status = communicator.status();
        if (status.ok()) status = Exchange(**communicator, /*looks=*/3);
        if (communicator.ok()) {
          EXPECT_EQ((*communicator)->is_broken(), !status.ok());
        }
      }

      has_failed = nccl_.calls_left < 0;
      EXPECT_FALSE(nccl_.has_comm);
      // Nobody can do anything about an abort that fails.
      const bool is_told = has_failed && !nccl_.abort_has_failed;
      EXPECT_EQ(status.code(), is_told ? code : absl::StatusCode::kOk);
    }
    EXPECT_GE(num_calls, 10);
  }
}

TEST_F(NcclCommunicatorTest, GroupThatCannotBeMadeIsEndedBeforeTheAbort) {
  const auto communicator = Create();
  ASSERT_OK(communicator);
  nccl_.send = ncclInvalidArgument;

  EXPECT_THAT(Exchange(**communicator, 0),
              StatusIs(absl::StatusCode::kInternal,
                       HasSubstr("ncclSend of 2 bytes to 0")));
  EXPECT_THAT(nccl_.calls, ElementsAre("start", "send 2 to 0", "end", "abort"));
}

TEST(NcclStatusTest, TellsWhatAnotherProcessHasDoneFromMistakes) {
  EXPECT_OK(StatusOfNccl(ncclSuccess, "x"));
  for (const ncclResult_t result : {ncclSystemError, ncclRemoteError}) {
    EXPECT_TRUE(absl::IsUnavailable(StatusOfNccl(result, "x")));
  }
  for (const ncclResult_t result : {ncclUnhandledCudaError, ncclInternalError,
                                    ncclInvalidArgument, ncclInvalidUsage}) {
    EXPECT_TRUE(absl::IsInternal(StatusOfNccl(result, "x")));
  }
  EXPECT_EQ(StatusOfNccl(ncclRemoteError, "call", "why").message(),
            "call: ncclRemoteError (why)");
}

TEST(NcclLibraryTest, TellsThatThereIsNone) {
  EXPECT_THAT(LoadNccl("/no/such/libnccl.so"),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("/no/such/libnccl.so")));
}

TEST(NcclLibraryTest, FindsAllThatIsUsedInTheToolkitsOwn) {
  const absl::StatusOr<NcclFunctions> nccl =
      LoadNccl("/usr/local/cuda/lib64/libnccl.so.2");
  if (!nccl.ok()) GTEST_SKIP() << nccl.status();

  EXPECT_GE(nccl->version, 22300);
}

}  // namespace
}  // namespace tensorkv
