#include "client/cluster/placement_source.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "client/internal/transfer/message_bytes.h"
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

Task<absl::StatusOr<PlacementPtr>> PlacementSource::Refresh(
    uint64_t version, const CallLimit& limit) {
  CO_RETURN_IF_ERROR(co_await AskTogether(version, limit));
  co_return Known();
}

size_t PlacementSource::num_waiting() const {
  MutexLock lock(&mutex_);
  return num_waiting_;
}

Task<absl::StatusOr<DescribeClusterReply>> PlacementSource::AskTogether(
    uint64_t version, const CallLimit& limit) {
  Question question = {.version = version};
  std::optional<uint64_t> num_before;
  while (question.number == 0) {
    std::shared_ptr<Canceller> of_other;
    {
      MutexLock lock(&mutex_);
      if (!num_before) num_before = num_questions_;
      of_other = under_way_;
      if (of_other != nullptr) {
        ++num_waiting_;
      } else if (AnswersAll(version, *num_before)) {
        co_return last_.answer;
      } else {
        under_way_ = std::make_shared<Canceller>();
        question.number = ++num_questions_;
      }
    }
    if (of_other == nullptr) continue;
    const absl::Status status = co_await AwaitEnd(of_other, limit);
    {
      MutexLock lock(&mutex_);
      --num_waiting_;
    }
    CO_RETURN_IF_ERROR(status);
  }
  question.answer = co_await AskOneByOne(version, limit);
  question.was_interrupted = limit.TimeLeft() <= absl::ZeroDuration() ||
                             absl::IsCancelled(question.answer.status());
  absl::StatusOr<DescribeClusterReply> answer = question.answer;
  std::shared_ptr<Canceller> ended;
  {
    MutexLock lock(&mutex_);
    last_ = std::move(question);
    ended = std::exchange(under_way_, nullptr);
  }
  ended->Cancel();
  co_return answer;
}

bool PlacementSource::AnswersAll(uint64_t version, uint64_t num_before) const {
  if (last_.number <= num_before || last_.was_interrupted) return false;
  const bool knows_version =
      last_.answer.ok() && last_.answer->placement().version() >= version;
  return last_.version >= version || knows_version;
}

Task<absl::Status> PlacementSource::AwaitEnd(
    const std::shared_ptr<Canceller>& of_question, const CallLimit& limit) {
  const auto wakes = std::make_shared<Canceller>();
  {
    const Canceller::Listening by_end(of_question, [=] { wakes->Cancel(); });
    const Canceller::Listening by_caller(limit.canceller,
                                         [=] { wakes->Cancel(); });
    co_await Pause(environment_, limit.TimeLeft(), wakes, limit.threads);
  }
  if (limit.IsCancelled()) {
    co_return absl::CancelledError("the caller has ended the call");
  }
  if (limit.TimeLeft() <= absl::ZeroDuration()) co_return NoTimeIsLeft();
  co_return absl::OkStatus();
}

Task<absl::StatusOr<DescribeClusterReply>> PlacementSource::AskOneByOne(
    uint64_t version, const CallLimit& limit) {
  absl::StatusOr<DescribeClusterReply> last = NoTimeIsLeft();
  const std::vector<std::string> addresses = Addresses();
  for (const std::string& address : addresses) {
    if (limit.TimeLeft() <= absl::ZeroDuration()) break;
    absl::StatusOr<DescribeClusterReply> answer = co_await Ask(address, limit);
    if (answer.ok() || !last.ok()) last = std::move(answer);
    if (last.ok() && last->placement().version() >= version) break;
  }
  co_return last;
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

Task<absl::StatusOr<DescribeClusterReply>> PlacementSource::Ask(
    const std::string& address, const CallLimit& limit) {
  CO_ASSIGN_OR_RETURN(const std::shared_ptr<Connection> server,
                      ConnectionTo(address));
  const DescribeClusterRequest question;
  DescribeClusterReply reply;
  const AnyCall call(question, reply);
  const CallOptions options = limit.Within(kLongestQuestion).Options();
  const absl::Status status =
      co_await MadeCall(*server, call, options, limit.threads);
  if (absl::IsDeadlineExceeded(status)) {
    co_return absl::UnavailableError(
        absl::StrCat("server ", address, ": ", status.message()));
  }
  CO_RETURN_IF_ERROR(status);
  CO_ASSIGN_OR_RETURN(ClusterPlacement placement,
                      CheckReply(FromProto(reply.placement())));
  if (!placement.owners.empty()) {
    Learn(std::move(placement));
  } else if (reply.server_name().empty()) {
    Learn(PlacementOfOne(address));
  } else {
    co_return absl::UnavailableError(
        absl::StrCat("server ", address, ": knows no placement yet"));
  }
  co_return reply;
}

}  // namespace tensorkv
