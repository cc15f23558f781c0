// Lets workers leave when the process ends.

#ifndef TENSORKV_PYTHON_CORE_EXIT_LEAVES_H_
#define TENSORKV_PYTHON_CORE_EXIT_LEAVES_H_

#include <memory>

#include "python/core/session.h"

namespace tensorkv::python {

// Keeps the session until the process calls exit(), and then has its worker
// leave: as done where the status is 0, else as lost. Python itself does not
// tell its own handlers which status it ends with. Thread-safe.
void LeaveAtExit(std::shared_ptr<Session> session);

}  // namespace tensorkv::python

#endif  // TENSORKV_PYTHON_CORE_EXIT_LEAVES_H_
