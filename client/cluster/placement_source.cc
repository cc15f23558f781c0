#include "client/cluster/placement_source.h"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/internal/message_bytes.h"
#include "client/internal/steady_now.h"
#include "contract/proto_codec.h"

namespace tensorkv {
namespace {

// Where one server does not answer, the next one is to have a chance.
constexpr absl::Duration kLongestQuestion = absl::Seconds(2);

absl::Status NoTimeIsLeft() {
  return absl::DeadlineExceededError(
      "no time is left to ask which server owns what");
}

ClusterPlacement PlacementOfOne(const std::string& address) {
  ClusterPlacement placement;
  placement.servers = {{.address = address, .live = true}};
  placement.owners = {0};
  return placement;
}

}  // namespace

absl::StatusOr<PlacementPtr> PlacementSource::Current(
    const CallOptions& options) {
  if (PlacementPtr known = Known()) return known;
  return Refresh(0, options);
}

absl::StatusOr<PlacementPtr> PlacementSource::Refresh(
    uint64_t version, const CallOptions& options) {
  RETURN_IF_ERROR(AskTogether(version, options).status());
  return Known();
}

size_t PlacementSource::num_waiting() const {
  MutexLock lock(&mutex_);
  return num_waiting_;
}

absl::StatusOr<DescribeClusterReply> PlacementSource::AskTogether(
    uint64_t version, const CallOptions& options) {
  std::atomic<bool> is_cancelled = false;
  const Canceller::Listening listening(options.canceller, [&] {
    is_cancelled = true;
    MutexLock lock(&mutex_);
    changed_.SignalAll();
  });
  Question question = {.version = version};
  const absl::Duration end = SteadyNow() + options.timeout;
  {
    MutexLock lock(&mutex_);
    ASSIGN_OR_RETURN(const bool asks, WaitToAsk(version, end, is_cancelled));
    if (!asks) return last_.answer;
    is_asking_ = true;
    question.number = ++num_questions_;
  }
  question.answer = AskOneByOne(
      version, {.timeout = end - SteadyNow(), .canceller = options.canceller});
  question.was_interrupted =
      SteadyNow() >= end || absl::IsCancelled(question.answer.status());
  absl::StatusOr<DescribeClusterReply> answer = question.answer;
  MutexLock lock(&mutex_);
  last_ = std::move(question);
  is_asking_ = false;
  changed_.SignalAll();
  return answer;
}

absl::StatusOr<bool> PlacementSource::WaitToAsk(
    uint64_t version, absl::Duration end,
    const std::atomic<bool>& is_cancelled) {
  const uint64_t last_before = num_questions_;
  while (is_asking_) {
    if (is_cancelled) {
      return absl::CancelledError("the caller has ended the call");
    }
    const absl::Duration time_left = end - SteadyNow();
    if (time_left <= absl::ZeroDuration()) return NoTimeIsLeft();
    ++num_waiting_;
    changed_.WaitWithTimeout(&mutex_, time_left);
    --num_waiting_;
  }
  if (last_.number <= last_before || last_.was_interrupted) return true;
  const bool knows_version =
      last_.answer.ok() && last_.answer->placement().version() >= version;
  return last_.version < version && !knows_version;
}

absl::StatusOr<DescribeClusterReply> PlacementSource::AskOneByOne(
    uint64_t version, const CallOptions& options) {
  const absl::Duration end = SteadyNow() + options.timeout;
  absl::StatusOr<DescribeClusterReply> last = NoTimeIsLeft();
  for (const std::string& address : Addresses()) {
    const absl::Duration time_left = end - SteadyNow();
    if (time_left <= absl::ZeroDuration()) break;
    absl::StatusOr<DescribeClusterReply> answer =
        Ask(address, {.timeout = std::min(time_left, kLongestQuestion),
                      .canceller = options.canceller});
    if (answer.ok() || !last.ok()) last = std::move(answer);
    if (last.ok() && last->placement().version() >= version) break;
  }
  return last;
}

PlacementPtr PlacementSource::Known() const {
  MutexLock lock(&mutex_);
  return known_;
}

void PlacementSource::Learn(ClusterPlacement placement) {
  auto learnt = std::make_shared<const ClusterPlacement>(std::move(placement));
  MutexLock lock(&mutex_);
  // One of the same version may tell of other addresses and losses.
  if (known_ == nullptr || known_->version <= learnt->version) known_ = learnt;
}

std::vector<std::string> PlacementSource::Addresses() const {
  std::vector<std::string> addresses;
  const auto add = [&](const std::string& address) {
    if (!absl::c_linear_search(addresses, address))
      addresses.push_back(address);
  };
  if (const PlacementPtr known = Known()) {
    for (const ClusterServer& server : known->servers) {
      if (server.live) add(server.address);
    }
  }
  for (const std::string& address : addresses_) add(address);
  return addresses;
}

absl::StatusOr<std::shared_ptr<Connection>> PlacementSource::ConnectionTo(
    const std::string& address) {
  {
    MutexLock lock(&mutex_);
    const auto known = connections_.find(address);
    if (known != connections_.end()) return known->second;
  }
  // Other servers may have been there before, which the server is not to be
  // taken for.
  ASSIGN_OR_RETURN(std::shared_ptr<Connection> connection,
                   connect_(address, std::make_shared<ServerIncarnation>()));
  const std::vector<std::string> addresses = Addresses();
  decltype(connections_) gone;  // They go after the lock.
  MutexLock lock(&mutex_);
  for (auto each = connections_.begin(); each != connections_.end();) {
    const auto next = std::next(each);
    if (!absl::c_linear_search(addresses, each->first)) {
      gone.insert(connections_.extract(each));
    }
    each = next;
  }
  return connections_.try_emplace(address, std::move(connection)).first->second;
}

absl::StatusOr<DescribeClusterReply> PlacementSource::Ask(
    const std::string& address, const CallOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<Connection> server,
                   ConnectionTo(address));
  absl::StatusOr<DescribeClusterReply> reply =
      server->Call(DescribeClusterRequest(), options);
  if (absl::IsDeadlineExceeded(reply.status())) {
    return absl::UnavailableError(
        absl::StrCat("server ", address, ": ", reply.status().message()));
  }
  RETURN_IF_ERROR(reply.status());
  ASSIGN_OR_RETURN(ClusterPlacement placement,
                   CheckReply(FromProto(reply->placement())));
  if (!placement.owners.empty()) {
    Learn(std::move(placement));
  } else if (reply->server_name().empty()) {
    Learn(PlacementOfOne(address));
  } else {
    return absl::UnavailableError(
        absl::StrCat("server ", address, ": knows no placement yet"));
  }
  return reply;
}

}  // namespace tensorkv
