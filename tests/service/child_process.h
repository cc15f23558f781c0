// A program of ours, run by a test.

#ifndef TENSORKV_TESTS_SERVICE_CHILD_PROCESS_H_
#define TENSORKV_TESTS_SERVICE_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tensorkv::testing {

// Starts at construction; the destructor kills it if it still runs. Confined
// to one thread.
class ChildProcess {
 public:
  // `arguments` begin with the program's path.
  explicit ChildProcess(std::vector<std::string> arguments);
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // The first line of stdout or stderr that contains `text`; empty if the
  // process ends without it.
  std::string WaitForLine(absl::string_view text);

  void Signal(int signal);

  // Its exit status once it has ended, or minus the signal that killed it.
  int Wait();

  // Everything it has written; after Wait.
  const std::string& output() const { return output_; }

 private:
  // Appends to output_. Returns false at the end.
  bool Read();

  pid_t pid_ = -1;
  int output_fd_ = -1;
  std::string output_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_SERVICE_CHILD_PROCESS_H_
