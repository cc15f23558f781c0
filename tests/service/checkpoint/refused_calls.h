// System calls that fail as if the file system, or the disk, did not have them.

#ifndef TENSORKV_TESTS_SERVICE_CHECKPOINT_REFUSED_CALLS_H_
#define TENSORKV_TESTS_SERVICE_CHECKPOINT_REFUSED_CALLS_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace tensorkv::testing {

struct RefusedCall {
  int number = 0;
  int error = 0;
  // The call fails only if this argument, counted from 0, is not 0; -1: always.
  int argument = -1;
};

// Runs `run` on a thread of its own, on which, and on the threads that it
// starts, these calls fail. Returns false, without having run anything, if the
// system lets no process do that.
inline bool RunWithout(const std::vector<RefusedCall>& calls,
                       const std::function<void()>& run) {
  constexpr uint16_t kLoad = BPF_LD | BPF_W | BPF_ABS;
  std::vector<sock_filter> program;
  for (const RefusedCall& call : calls) {
    const bool looks = call.argument >= 0;
    program.push_back(BPF_STMT(kLoad, offsetof(seccomp_data, nr)));
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
                               static_cast<uint32_t>(call.number), 0,
                               static_cast<uint8_t>(looks ? 3 : 1)));
    if (looks) {
      program.push_back(
          BPF_STMT(kLoad, static_cast<uint32_t>(offsetof(seccomp_data, args) +
                                                8 * call.argument)));
      program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0));
    }
    program.push_back(
        BPF_STMT(BPF_RET | BPF_K,
                 SECCOMP_RET_ERRNO | static_cast<uint32_t>(call.error)));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter = {static_cast<uint16_t>(program.size()),
                             program.data()};
  bool has_run = false;
  std::thread([&] {
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
      return;
    }
    has_run = true;
    run();
  }).join();
  return has_run;
}

// What NFS, CephFS and Lustre have no flags for.
inline RefusedCall RenameWithFlags(int error) {
  return {.number = SYS_renameat2, .error = error, .argument = 4};
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_CHECKPOINT_REFUSED_CALLS_H_
