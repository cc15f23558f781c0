// DescribeSteps: tells what the steps of a namespace were.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/step_token.h"
#include "service/store/keyspace/namespace_state.h"
#include "service/store/keyspace/rounds/step_record.h"
#include "service/store/keyspace/rounds/step_records.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

constexpr uint32_t kDefaultStepsOfPage = 10;
constexpr uint32_t kMaxStepsOfPage = StepRecords::kMaxSteps;
constexpr size_t kMaxStepPageBytes = 1 << 20;

// Returns the highest step of the page that the request asks for. Errors:
// InvalidArgument.
absl::StatusOr<Step> LastOf(const DescribeStepsRequest& request) {
  const Step last = request.last_step() == 0 ? UINT64_MAX : request.last_step();
  if (request.first_step() > last) {
    return absl::InvalidArgumentError(
        absl::StrCat("first_step: expected at most last_step, which is ", last,
                     ", got ", request.first_step()));
  }
  if (request.page_token().empty()) return last;
  ASSIGN_OR_RETURN(const Step above, StepAbovePage(request.page_token()));
  return above == 0 ? 0 : std::min(last, above - 1);
}

int PageSizeOf(const DescribeStepsRequest& request) {
  if (request.page_size() == 0) return kDefaultStepsOfPage;
  return static_cast<int>(std::min(request.page_size(), kMaxStepsOfPage));
}

// Locks the mutex for each record, of which the message is made without it.
absl::StatusOr<DescribeStepsReply> PageOf(const NamespaceState& state,
                                          const DescribeStepsRequest& request) {
  const StepRecords* const records = state.mode->step_records();
  if (records == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("namespace ", Quoted(state.name),
                     ": expected one of MODE_SYNC, which alone has rounds"));
  }
  ASSIGN_OR_RETURN(Step last, LastOf(request));
  const int page_size = PageSizeOf(request);
  DescribeStepsReply page;
  size_t bytes = 0;
  for (;;) {
    StepRecordPtr shared;
    {
      MutexLock lock(&state.mutex);
      page.set_last_forgotten(records->last_forgotten());
      shared = records->Newest(request.first_step(), last);
    }
    if (!shared) return page;
    const bool is_full = page.steps_size() == page_size;
    v1::StepRecord record;
    if (!is_full) record = ToProto(shared->record, records->has_weights());
    bytes += record.ByteSizeLong();
    if (is_full || (bytes > kMaxStepPageBytes && page.steps_size() > 0)) {
      page.set_next_page_token(
          TokenBelowStep(page.steps(page.steps_size() - 1).step()));
      return page;
    }
    *page.add_steps() = std::move(record);
    last = shared->record.step - 1;
  }
}

}  // namespace

void Namespace::DescribeSteps(DescribeStepsRequest request, CallContext,
                              ReplyCallback<DescribeStepsReply> done) {
  std::move(done)(PageOf(*state_, request));
}

}  // namespace tensorkv
