#include "tests/testing/listed_metadata.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/testing/error_proto_text.h"

namespace tensorkv::testing {
namespace {

// The texts between each `open` and the `close` that follows.
std::vector<std::string> Between(absl::string_view text, char open,
                                 char close) {
  std::vector<std::string> found;
  size_t begin = 0;
  while ((begin = text.find(open, begin)) != absl::string_view::npos) {
    const size_t end = text.find(close, begin + 1);
    if (end == absl::string_view::npos) break;
    found.emplace_back(text.substr(begin + 1, end - begin - 1));
    begin = end + 1;
  }
  return found;
}

MetadataForm FormOf(absl::string_view names) {
  MetadataForm form;
  for (absl::string_view name : absl::StrSplit(names, ", ")) {
    const bool is_optional = absl::ConsumeSuffix(&name, "?");
    (is_optional ? form.optional : form.required).emplace(name);
  }
  return form;
}

struct Listed {
  std::map<std::string, std::vector<MetadataForm>> forms;
  std::set<std::string> names;
};

// Comments belong to the line after them.
Listed ReadProto() {
  Listed listed;
  std::string comment;
  for (absl::string_view line : absl::StrSplit(kErrorProto, '\n')) {
    line = absl::StripLeadingAsciiWhitespace(line);
    if (absl::ConsumePrefix(&line, "//")) {
      absl::StrAppend(&comment, line);
      continue;
    }
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words[0] == "enum") {
      const std::vector<std::string> names = Between(comment, '`', '`');
      listed.names.insert(names.begin(), names.end());
    } else if (words.size() > 2 && words[1] == "=") {
      std::vector<MetadataForm>& forms = listed.forms[words[0]];
      for (const std::string& names : Between(comment, '{', '}')) {
        forms.push_back(FormOf(names));
      }
      if (forms.empty()) forms.emplace_back();
    }
    comment.clear();
  }
  return listed;
}

const Listed& All() {
  static const auto* const listed = new Listed(ReadProto());
  return *listed;
}

}  // namespace

bool MetadataForm::Has(const std::set<std::string>& names) const {
  const auto is_known = [&](const std::string& name) {
    return required.contains(name) || optional.contains(name);
  };
  return std::ranges::includes(names, required) &&
         std::ranges::all_of(names, is_known);
}

const std::vector<MetadataForm>& MetadataOf(Reason reason) {
  return All().forms.at(std::string(ReasonName(reason)));
}

const std::set<std::string>& MetadataNames() { return All().names; }

}  // namespace tensorkv::testing
