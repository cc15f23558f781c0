// DescribeSteps: tells what the steps of a namespace were.

#include <utility>

#include "absl/status/status.h"
#include "service/store/keyspace/namespace.h"

namespace tensorkv {

void Namespace::DescribeSteps(DescribeStepsRequest request, CallContext context,
                              ReplyCallback<DescribeStepsReply> done) {
  std::move(done)(absl::UnimplementedError("DescribeSteps"));
}

}  // namespace tensorkv
