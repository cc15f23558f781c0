// The log of the process.

#ifndef TENSORKV_SERVICE_SERVER_LOG_H_
#define TENSORKV_SERVICE_SERVER_LOG_H_

#include <string>

namespace tensorkv {

// Sends what the server and its libraries log to the standard error, one line
// each. `format` is "text" ("time level message") or "json" (an object with
// these three members). Call it once, before anything is logged.
void SetUpLog(const std::string& level, const std::string& format);

// Changes which lines are logged: those of `level` ("debug", "info", "warning"
// or "error") and above. Thread-safe.
void SetLogLevel(const std::string& level);

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_SERVER_LOG_H_
