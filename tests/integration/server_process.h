// The real server binary, as a child of the test.

#ifndef TENSORKV_TESTS_INTEGRATION_SERVER_PROCESS_H_
#define TENSORKV_TESTS_INTEGRATION_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tensorkv::testing {

// Starts the server with `flags`, on TestDevice() unless they choose a device,
// and reads what it writes to stderr. Killed, if it still runs, with this
// object. Not thread-safe.
class ServerProcess {
 public:
  explicit ServerProcess(const std::vector<std::string>& flags);
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  // Reads on until a line has `text`, and returns that line; empty if stderr
  // ends first.
  std::string AwaitLine(const std::string& text);
  // Reads on until the server serves its cluster, which it may have logged
  // before the line that was awaited last; false if it ends before.
  bool AwaitServing();

  // Reads on until the server is ready; where it listens.
  std::string AwaitAddress();

  // Reads on to the end of stderr.
  std::string ReadAll();
  // Nobody reads stderr from now on, as if `tee` had ended.
  void CloseLog();

  void Signal(int signal);

  pid_t pid() const { return pid_; }

  // A number of /proc/PID/status, such as "Threads:", or "VmRSS:" in KiB; -1 if
  // there is none.
  int64_t StatusField(const std::string& name) const;

  // Waits for the end; the exit code, or -1 after a signal.
  int Wait();

 private:
  // Up to and with the next newline; empty at the end.
  std::string ReadLine();

  int log_fd_ = -1;
  // What the last AwaitLine has read before its line.
  std::string passed_over_;
  pid_t pid_ = -1;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_SERVER_PROCESS_H_
