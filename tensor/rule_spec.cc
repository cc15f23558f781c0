#include "tensor/rule_spec.h"

#include <charconv>
#include <cstddef>
#include <set>
#include <utility>
#include <vector>

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

// The shortest text that reads back as the same number.
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
    if (Accept('(') && !Accept(')')) {
      do {
        RETURN_IF_ERROR(ReadHyperparameter(rule));
      } while (Accept(','));
      if (!Accept(')')) return Expected("',' or ')'");
    }
    SkipSpaces();
    if (position_ < text_.size()) return Expected("the end");
    return rule;
  }

 private:
  absl::Status ReadHyperparameter(RuleSpec& rule) {
    SkipSpaces();
    const size_t start = position_;
    ASSIGN_OR_RETURN(std::string name, ReadName());
    if (!names_.insert(name).second) {
      position_ = start;
      return Expected("a name not yet given");
    }
    if (!Accept('=')) return Expected("'='");
    if (name == kKeepMaster) return ReadKeepMaster(rule);
    ASSIGN_OR_RETURN(rule.hyperparameters[name], ReadNumber());
    return absl::OkStatus();
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
  std::set<std::string> names_;
};

}  // namespace

std::string RuleSpec::ToString() const {
  std::vector<std::string> settings;
  for (const auto& [name, value] : hyperparameters) {
    settings.push_back(absl::StrCat(name, "=", Text(value)));
  }
  if (!keep_master) settings.push_back(absl::StrCat(kKeepMaster, "=0"));
  if (settings.empty()) return name;
  return absl::StrCat(name, "(", absl::StrJoin(settings, ", "), ")");
}

absl::StatusOr<RuleSpec> ParseRuleSpec(absl::string_view text) {
  return Reader(text).Read();
}

}  // namespace tensorkv
