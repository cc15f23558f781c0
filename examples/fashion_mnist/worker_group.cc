#include "examples/fashion_mnist/worker_group.h"

#include <poll.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv::fashion_mnist {
namespace {

absl::Status WithRank(size_t rank, const absl::Status& status) {
  return absl::Status(status.code(),
                      absl::StrCat("worker ", rank, ": ", status.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WorkerGroup>> WorkerGroup::Start(
    const std::string& executable,
    const std::vector<std::vector<std::string>>& arguments) {
  auto group = absl::WrapUnique(new WorkerGroup());
  for (size_t rank = 0; rank < arguments.size(); ++rank) {
    ASSIGN_OR_RETURN(std::unique_ptr<WorkerProcess> worker,
                     WorkerProcess::Start(executable, arguments[rank]));
    group->workers_.push_back(std::move(worker));
    group->running_.push_back(rank);
  }
  return group;
}

absl::StatusOr<std::vector<StepReport>> WorkerGroup::NextReports() {
  std::vector<StepReport> reports;
  while (reports.empty() && !running_.empty()) {
    ASSIGN_OR_RETURN(const std::vector<size_t> readable, WaitForReadable());
    for (const size_t rank : readable) {
      const absl::Status status = Collect(rank, &reports);
      if (!status.ok()) return WithRank(rank, status);
    }
  }
  return reports;
}

absl::StatusOr<std::vector<size_t>> WorkerGroup::WaitForReadable() {
  std::vector<pollfd> polled;
  for (const size_t rank : running_) {
    polled.push_back(
        {.fd = workers_[rank]->report_fd(), .events = POLLIN, .revents = 0});
  }
  while (poll(polled.data(), polled.size(), /*timeout=*/-1) < 0) {
    if (errno != EINTR) return absl::InternalError(strerror(errno));
  }
  std::vector<size_t> readable;
  for (size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) readable.push_back(running_[i]);
  }
  return readable;
}

absl::Status WorkerGroup::Collect(size_t rank,
                                  std::vector<StepReport>* reports) {
  ASSIGN_OR_RETURN(const std::vector<StepReport> arrived,
                   workers_[rank]->ReadReports());
  absl::c_copy(arrived, std::back_inserter(*reports));
  if (!arrived.empty()) return absl::OkStatus();
  running_.erase(absl::c_find(running_, rank));
  return workers_[rank]->Wait();
}

}  // namespace tensorkv::fashion_mnist
