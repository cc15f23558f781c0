// A store that answers what the test says.

#ifndef TENSORKV_TESTS_SERVICE_MOCK_STORE_H_
#define TENSORKV_TESTS_SERVICE_MOCK_STORE_H_

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "service/store/tensor_store.h"

namespace tensorkv::testing {

class MockTensorStore : public TensorStore {
 public:
  MOCK_METHOD(void, Init, (InitRequest, CallContext, ReplyCallback<InitReply>),
              (override));
  MOCK_METHOD(void, Push, (PushRequest, CallContext, ReplyCallback<PushReply>),
              (override));
  MOCK_METHOD(void, Pull, (PullRequest, CallContext, ReplyCallback<PullReply>),
              (override));
  MOCK_METHOD(void, PushPull,
              (PushPullRequest, CallContext, ReplyCallback<PullReply>),
              (override));
  MOCK_METHOD(void, SetState,
              (SetStateRequest, CallContext, ReplyCallback<SetStateReply>),
              (override));
  MOCK_METHOD(void, GetState,
              (GetStateRequest, CallContext, ReplyCallback<GetStateReply>),
              (override));
  MOCK_METHOD(void, Delete,
              (DeleteRequest, CallContext, ReplyCallback<DeleteReply>),
              (override));
  MOCK_METHOD(absl::StatusOr<ListReply>, List,
              (const ListRequest&, const CallContext&), (override));
  MOCK_METHOD(void, Stat, (StatRequest, CallContext, ReplyCallback<StatReply>),
              (override));
};

class MockNamespaceAdmin : public NamespaceAdmin {
 public:
  MOCK_METHOD(absl::StatusOr<DescribeNamespaceReply>, DescribeNamespace,
              (const DescribeNamespaceRequest&, const CallContext&),
              (override));
  MOCK_METHOD(absl::StatusOr<std::vector<NamespaceStatus>>, ListNamespaces,
              (absl::string_view, size_t, Shows, const CallContext&),
              (override));
  MOCK_METHOD(void, Barrier,
              (BarrierRequest, CallContext, ReplyCallback<BarrierReply>),
              (override));
#define TENSORKV_MOCK(name, ...)                                        \
  MOCK_METHOD(void, name,                                               \
              (name##Request, CallContext, ReplyCallback<name##Reply>), \
              (override));
  TENSORKV_ADMIN_METHODS(TENSORKV_MOCK)
#undef TENSORKV_MOCK
};

// Actions for calls that take a callback: answer at once.
//   EXPECT_CALL(store, Pull).WillOnce(AnswerWith<PullReply>(reply));
template <typename Reply>
auto AnswerWith(absl::StatusOr<Reply> reply) {
  return [reply](auto, CallContext, ReplyCallback<Reply> done) {
    std::move(done)(reply);
  };
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_MOCK_STORE_H_
