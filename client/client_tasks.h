// The verbs of a client as tasks, for those that are made of several.

#ifndef TENSORKV_CLIENT_CLIENT_TASKS_H_
#define TENSORKV_CLIENT_CLIENT_TASKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/call_threads.h"
#include "client/client.h"
#include "client/internal/calls/task.h"
#include "contract/requests.h"

namespace tensorkv {

// Makes what the verbs of Client of the same names make. With `threads`, on
// which runs what has to block, a task waits without a thread; without, it
// blocks the thread that runs it. What is to be encoded is encoded on the
// thread that begins the task.
struct ClientTasks {
  // Returns whether pushes are encoded.
  static bool Encodes(const Client& client);
  // Pushes tensors, or rows where the entries have ids.
  static Task<absl::StatusOr<PushReply>> Push(Client client,
                                              std::vector<PushEntry> entries,
                                              PushOptions options,
                                              CallThreads* threads);
  static Task<absl::StatusOr<PullReply>> PushPull(
      Client client, std::vector<PushEntry> entries, PushOptions options,
      CallThreads* threads);
  static Task<absl::StatusOr<PullReply>> Pull(Client client,
                                              PullRequest request,
                                              CallThreads* threads);
  // Makes a Pull that is signed by no worker, and waits for no step.
  static Task<absl::StatusOr<PullReply>> PullUnsigned(Client client,
                                                      PullRequest request,
                                                      CallThreads* threads);
  static Task<absl::StatusOr<PullReply>> PullRows(Client client,
                                                  PullRowsRequest request,
                                                  CallThreads* threads);
  static Task<absl::StatusOr<JoinReply>> Join(Client client,
                                              std::string worker_name,
                                              absl::Duration lease,
                                              uint64_t namespace_uid,
                                              std::optional<uint32_t> rank,
                                              CallThreads* threads);
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLIENT_TASKS_H_
