#include "tensor/rule_spec.h"

#include <charconv>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

constexpr absl::string_view kKeepMaster = "keep_master";
constexpr absl::string_view kSchedule = "schedule";
constexpr absl::string_view kSteps = "steps";

// Returns the shortest text that reads back as the same number.
std::string Text(double number) {
  char text[32];
  const auto [end, error] =
      std::to_chars(std::begin(text), std::end(text), number);
  return std::string(text, end);
}

// Reads a rule from left to right, skipping spaces.
class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text) {}

  absl::StatusOr<RuleSpec> Read() {
    RuleSpec rule;
    ASSIGN_OR_RETURN(rule.name, ReadName());
    RETURN_IF_ERROR(ReadSettings([&](const std::string& name) -> absl::Status {
      if (name == kKeepMaster) return ReadKeepMaster(rule);
      if (name == kSchedule) return ReadSchedule(rule.schedule);
      ASSIGN_OR_RETURN(rule.hyperparameters[name], ReadNumber());
      return absl::OkStatus();
    }));
    if (Accept(':')) {
      rule.expression =
          std::string(absl::StripAsciiWhitespace(text_.substr(position_)));
      return rule;
    }
    SkipSpaces();
    if (position_ < text_.size()) return Expected("the end");
    return rule;
  }

 private:
  // Reads "(name=..., name=...)" or nothing; `read` takes what follows a name.
  absl::Status ReadSettings(
      absl::FunctionRef<absl::Status(const std::string& name)> read) {
    if (!Accept('(') || Accept(')')) return absl::OkStatus();
    std::set<std::string> names;
    do {
      SkipSpaces();
      const size_t start = position_;
      ASSIGN_OR_RETURN(const std::string name, ReadName());
      if (!names.insert(name).second) {
        position_ = start;
        return Expected("a name not yet given");
      }
      if (!Accept('=')) return Expected("'='");
      RETURN_IF_ERROR(read(name));
    } while (Accept(','));
    return Accept(')') ? absl::OkStatus() : Expected("',' or ')'");
  }

  absl::Status ReadSchedule(ScheduleSpec& schedule) {
    ASSIGN_OR_RETURN(schedule.name, ReadName());
    return ReadSettings([&](const std::string& name) -> absl::Status {
      if (name == kSteps) return ReadSteps(schedule.steps);
      ASSIGN_OR_RETURN(schedule.arguments[name], ReadNumber());
      return absl::OkStatus();
    });
  }

  absl::Status ReadSteps(std::vector<uint64_t>& steps) {
    if (!Accept('[')) return Expected("'['");
    if (Accept(']')) return absl::OkStatus();
    do {
      const absl::string_view text = TakeWhile(absl::ascii_isdigit);
      if (!absl::SimpleAtoi(text, &steps.emplace_back())) {
        position_ -= text.size();
        return Expected("a whole number");
      }
    } while (Accept(','));
    return Accept(']') ? absl::OkStatus() : Expected("',' or ']'");
  }

  absl::Status ReadKeepMaster(RuleSpec& rule) {
    SkipSpaces();
    const size_t start = position_;
    ASSIGN_OR_RETURN(const double value, ReadNumber());
    if (value != 0 && value != 1) {
      position_ = start;
      return Expected("0 or 1");
    }
    rule.keep_master = value == 1;
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ReadName() {
    const absl::string_view name =
        TakeWhile([](char c) { return absl::ascii_isalnum(c) || c == '_'; });
    if (name.empty()) return Expected("a name");
    return std::string(name);
  }

  absl::StatusOr<double> ReadNumber() {
    const absl::string_view text = TakeWhile(
        [](char c) { return !absl::ascii_isspace(c) && c != ',' && c != ')'; });
    double number = 0;
    if (!absl::SimpleAtod(text, &number)) {
      position_ -= text.size();
      return Expected("a number");
    }
    return number;
  }

  // Takes the characters that `belongs` accepts, after spaces.
  template <typename Predicate>
  absl::string_view TakeWhile(Predicate belongs) {
    SkipSpaces();
    const size_t start = position_;
    while (position_ < text_.size() && belongs(text_[position_])) ++position_;
    return text_.substr(start, position_ - start);
  }

  bool Accept(char expected) {
    SkipSpaces();
    if (position_ == text_.size() || text_[position_] != expected) return false;
    ++position_;
    return true;
  }

  void SkipSpaces() {
    while (position_ < text_.size() && absl::ascii_isspace(text_[position_])) {
      ++position_;
    }
  }

  absl::Status Expected(absl::string_view what) const {
    constexpr size_t kMostShown = 32;
    const absl::string_view rest = text_.substr(position_, kMostShown);
    const std::string found =
        rest.empty() ? "the end"
                     : absl::StrCat("\"", absl::CHexEscape(rest), "\"");
    return absl::InvalidArgumentError(
        absl::StrCat("rule: expected ", what, " at character ", position_ + 1,
                     ", got ", found));
  }

  const absl::string_view text_;
  size_t position_ = 0;
};

std::vector<std::string> Settings(const Hyperparameters& hyperparameters) {
  std::vector<std::string> settings;
  for (const auto& [name, value] : hyperparameters) {
    settings.push_back(absl::StrCat(name, "=", Text(value)));
  }
  return settings;
}

std::string Call(absl::string_view name,
                 const std::vector<std::string>& settings) {
  if (settings.empty()) return std::string(name);
  return absl::StrCat(name, "(", absl::StrJoin(settings, ", "), ")");
}

}  // namespace

std::string ScheduleSpec::ToString() const {
  std::vector<std::string> settings = Settings(arguments);
  if (!steps.empty()) {
    settings.push_back(
        absl::StrCat(kSteps, "=[", absl::StrJoin(steps, ", "), "]"));
  }
  return Call(name, settings);
}

std::string RuleSpec::ToString() const {
  std::vector<std::string> settings = Settings(hyperparameters);
  if (!keep_master) settings.push_back(absl::StrCat(kKeepMaster, "=0"));
  if (schedule != ScheduleSpec()) {
    settings.push_back(absl::StrCat(kSchedule, "=", schedule.ToString()));
  }
  const std::string call = Call(name, settings);
  return expression.empty() ? call : absl::StrCat(call, ": ", expression);
}

absl::StatusOr<RuleSpec> ParseRuleSpec(absl::string_view text) {
  return Reader(text).Read();
}

}  // namespace tensorkv
