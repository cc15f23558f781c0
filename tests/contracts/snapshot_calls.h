// The calls about named snapshots that the suites make.

#ifndef TENSORKV_TESTS_CONTRACTS_SNAPSHOT_CALLS_H_
#define TENSORKV_TESTS_CONTRACTS_SNAPSHOT_CALLS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/duration.h"
#include "contract/snapshot_references.h"
#include "tests/contracts/store_contract.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {

inline CreateSnapshotRequest CreateRequestOf(const std::string& series) {
  CreateSnapshotRequest request;
  request.set_series(series);
  return request;
}

inline uint64_t Create(const Caller& store, const std::string& series,
                       const std::vector<std::string>& prefixes = {}) {
  CreateSnapshotRequest request = CreateRequestOf(series);
  request.mutable_prefixes()->Add(prefixes.begin(), prefixes.end());
  const absl::StatusOr<CreateSnapshotReply> reply = store.Call(request);
  EXPECT_OK(reply.status());
  return reply.ok() ? reply->number() : 0;
}

inline PullRequest PullOf(const std::vector<std::string>& keys,
                          const SnapshotReference& at) {
  PullRequest request = {.at = at};
  for (const std::string& key : keys) request.entries.push_back({key});
  return request;
}

inline absl::StatusOr<Value> PullAt(const Caller& store, const std::string& key,
                                    const SnapshotReference& at) {
  absl::StatusOr<PullReply> reply = store.Call(PullOf({key}, at));
  if (!reply.ok()) return reply.status();
  return std::move(reply->values.front());
}

inline absl::StatusOr<DescribeSnapshotReply> Describe(
    const Caller& store, const SnapshotReference& at) {
  DescribeSnapshotRequest request;
  *request.mutable_at() = at;
  return store.Call(request);
}

inline absl::StatusOr<LeaseSnapshotReply> Lease(
    const Caller& store, const SnapshotReference& at, absl::Duration duration,
    const std::string& name = "lease") {
  LeaseSnapshotRequest request;
  *request.mutable_at() = at;
  request.set_lease(name);
  EncodeDuration(duration, request.mutable_duration());
  return store.Call(request);
}

inline absl::StatusOr<DeleteSnapshotReply> DeleteAll(
    const Caller& store, const std::string& series) {
  DeleteSnapshotRequest request;
  request.set_series(series);
  return store.Call(request);
}

inline std::vector<uint64_t> NumbersOf(const Caller& store,
                                       const std::string& series) {
  ListSnapshotsRequest request;
  request.set_series_prefix(series);
  std::vector<uint64_t> numbers;
  do {
    const absl::StatusOr<ListSnapshotsReply> page = store.Call(request);
    EXPECT_OK(page.status());
    if (!page.ok()) return {};
    for (const v1::SnapshotStatus& each : page->snapshots()) {
      if (each.series() == series) numbers.push_back(each.number());
    }
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  return numbers;
}

inline PublishAs PublicationOf(const std::string& series) {
  PublishAs publish_as;
  publish_as.set_series(series);
  return publish_as;
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACTS_SNAPSHOT_CALLS_H_
