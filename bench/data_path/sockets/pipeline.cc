#include "bench/data_path/sockets/pipeline.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

// What one system call takes at most (IOV_MAX is 1024).
constexpr int kMaxVectors = 512;
constexpr int kSilenceMilliseconds = 30'000;

bool MustTryAgain() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

absl::Status SystemError(const char* what) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, ": ", strerror(errno)));
}

absl::Status SilenceError() {
  return absl::DeadlineExceededError(absl::StrCat(
      "expected bytes, got none for ", kSilenceMilliseconds, " milliseconds"));
}

}  // namespace

// Which calls are ready to be made, under way and done.
class Pipeline::Progress {
 public:
  Progress(absl::Span<const PipelinedCall> calls, int64_t num_calls,
           absl::FunctionRef<void(absl::Duration)> on_done)
      : calls_(calls),
        states_(calls.size()),
        num_unstarted_(num_calls),
        num_unfinished_(num_calls),
        on_done_(on_done) {
    for (size_t i = 0; i < calls.size(); ++i) ready_.push_back(i);
  }

  bool is_done() const { return num_unfinished_ == 0; }

  // The next call to make, or -1.
  int Start() {
    if (ready_.empty() || num_unstarted_ == 0) return -1;
    const int index = ready_.front();
    ready_.pop_front();
    --num_unstarted_;
    states_[index] = {.parts_left = calls_[index].parts.size(),
                      .start = SteadyTime()};
    return index;
  }

  void FinishPart(int index) {
    State& state = states_[index];
    if (--state.parts_left > 0) return;
    on_done_(SteadyTime() - state.start);
    --num_unfinished_;
    ready_.push_back(index);
  }

  const PipelinedCall& call(int index) const { return calls_[index]; }

 private:
  struct State {
    size_t parts_left = 0;
    absl::Duration start;
  };

  const absl::Span<const PipelinedCall> calls_;
  std::vector<State> states_;
  std::deque<int> ready_;
  int64_t num_unstarted_;
  int64_t num_unfinished_;
  const absl::FunctionRef<void(absl::Duration)> on_done_;
};

absl::StatusOr<Pipeline> Pipeline::Connect(const std::string& address,
                                           int num_connections) {
  std::vector<Connection> connections;
  for (int i = 0; i < num_connections; ++i) {
    ASSIGN_OR_RETURN(Socket socket, ConnectTo(address));
    connections.push_back({.socket = std::move(socket)});
  }
  return Pipeline(std::move(connections));
}

absl::Status Pipeline::Run(absl::Span<const PipelinedCall> calls,
                           int64_t num_calls,
                           absl::FunctionRef<void(absl::Duration)> on_done) {
  Progress progress(calls, num_calls, on_done);
  while (!progress.is_done()) {
    StartReadyCalls(&progress);
    bool has_moved = false;
    for (Connection& connection : connections_) {
      ASSIGN_OR_RETURN(const bool has_sent, Send(&connection));
      ASSIGN_OR_RETURN(const bool has_received,
                       Receive(&connection, &progress));
      has_moved |= has_sent || has_received;
    }
    if (!has_moved) RETURN_IF_ERROR(AwaitReady());
  }
  return absl::OkStatus();
}

void Pipeline::StartReadyCalls(Progress* progress) {
  for (int index = progress->Start(); index >= 0; index = progress->Start()) {
    for (const PipelinedCall::Part& part : progress->call(index).parts) {
      Connection& connection = connections_[part.connection];
      connection.outgoing.Add(index, part.exchange.request());
      connection.incoming.Add(index, part.exchange.reply());
    }
  }
}

absl::StatusOr<bool> Pipeline::Send(Connection* connection) {
  if (connection->outgoing.empty()) return false;
  iovec vectors[kMaxVectors];
  const int count = connection->outgoing.Fill(absl::MakeSpan(vectors));
  const msghdr message = {.msg_iov = vectors,
                          .msg_iovlen = static_cast<size_t>(count)};
  const ssize_t size =
      sendmsg(connection->socket.fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  if (size < 0 && MustTryAgain()) return false;
  if (size < 0) return SystemError("send");
  RETURN_IF_ERROR(connection->outgoing.Advance(size, [](int) {}));
  return true;
}

absl::StatusOr<bool> Pipeline::Receive(Connection* connection,
                                       Progress* progress) {
  if (connection->incoming.empty()) return false;
  // With nothing else to do, waiting here saves a call to poll.
  const bool may_block =
      connections_.size() == 1 && connection->outgoing.empty();
  iovec vectors[kMaxVectors];
  const int count = connection->incoming.Fill(absl::MakeSpan(vectors));
  msghdr message = {.msg_iov = vectors,
                    .msg_iovlen = static_cast<size_t>(count)};
  const ssize_t size =
      recvmsg(connection->socket.fd(), &message, may_block ? 0 : MSG_DONTWAIT);
  if (size == 0) return absl::UnavailableError("the server closed");
  if (size < 0 && errno != EINTR && MustTryAgain() && may_block) {
    return SilenceError();
  }
  if (size < 0 && MustTryAgain()) return false;
  if (size < 0) return SystemError("receive");
  RETURN_IF_ERROR(connection->incoming.Advance(
      size, [&](int index) { progress->FinishPart(index); }));
  return true;
}

absl::Status Pipeline::AwaitReady() const {
  std::vector<pollfd> fds;
  for (const Connection& connection : connections_) {
    short events = 0;
    if (!connection.outgoing.empty()) events |= POLLOUT;
    if (!connection.incoming.empty()) events |= POLLIN;
    if (events != 0) {
      fds.push_back({.fd = connection.socket.fd(), .events = events});
    }
  }
  const int count = poll(fds.data(), fds.size(), kSilenceMilliseconds);
  if (count == 0) return SilenceError();
  if (count < 0 && errno != EINTR) return SystemError("poll");
  return absl::OkStatus();
}

}  // namespace tensorkv::bench
