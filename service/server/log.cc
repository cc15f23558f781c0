#include "service/server/log.h"

#include <memory>
#include <utility>

#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"
#include "nlohmann/json.hpp"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace tensorkv {
namespace {

// Logs as detail what the libraries say: errors reach the operator as statuses.
void LogGrpc(gpr_log_func_args* args) {
  spdlog::debug("grpc: {}:{}: {}", args->file, args->line, args->message);
}

void LogProtobuf(google::protobuf::LogLevel, const char* file, int line,
                 const std::string& message) {
  spdlog::debug("protobuf: {}:{}: {}", file, line, message);
}

// The message as a string of JSON. Bytes that are no UTF-8 become U+FFFD.
class JsonMessage final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& line) override {
    const std::string payload(message.payload.data(), message.payload.size());
    const std::string text = nlohmann::json(payload).dump(
        -1, ' ', false, nlohmann::json::error_handler_t::replace);
    line.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<JsonMessage>();
  }
};

std::unique_ptr<spdlog::formatter> FormatterOf(const std::string& format) {
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  if (format == "json") {
    formatter->add_flag<JsonMessage>('*').set_pattern(
        R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","message":%*})");
  } else {
    formatter->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  }
  return formatter;
}

}  // namespace

void SetUpLog(const std::string& level, const std::string& format) {
  auto logger = spdlog::stderr_logger_mt("tensorkv");
  logger->set_formatter(FormatterOf(format));
  logger->flush_on(spdlog::level::debug);
  spdlog::set_default_logger(std::move(logger));
  SetLogLevel(level);
  gpr_set_log_function(LogGrpc);
  google::protobuf::SetLogHandler(LogProtobuf);
}

void SetLogLevel(const std::string& level) {
  spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace tensorkv
