#include "client/cli/value_text.h"

#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "client/cli/elements.h"
#include "client/cli/message_text.h"

namespace tensorkv {
namespace {

constexpr int64_t kMostShown = 8;
constexpr int64_t kShownOfMore = 3;

// Returns `part` of each of `count`, or of the first and last; `separator`
// between.
std::string Joined(int64_t count, const char* separator,
                   absl::FunctionRef<std::string(int64_t)> part) {
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) text += separator;
    if (count > kMostShown && i == kShownOfMore) {
      absl::StrAppend(&text, "...", separator);
      i = count - kShownOfMore;
    }
    text += part(i);
  }
  return text;
}

std::string ElementJson(const Tensor& tensor, int64_t index) {
  const std::string text = ElementText(tensor, index);
  if (text == "nan") return "\"NaN\"";
  if (text == "inf") return "\"Infinity\"";
  return text == "-inf" ? "\"-Infinity\"" : text;
}

}  // namespace

std::string ValueText(const Tensor& tensor) {
  if (tensor.num_elements() == 0) return "";
  const auto dimensions = tensor.shape().dimensions();
  const int64_t row_size = dimensions.empty() ? 1 : dimensions.back();
  const auto row_text = [&](int64_t row) {
    return Joined(row_size, " ", [&](int64_t column) {
      return ElementText(tensor, row * row_size + column);
    });
  };
  return Joined(tensor.num_elements() / row_size, "\n", row_text) + "\n";
}

std::string ValueJson(absl::string_view key, const Value& value) {
  // The elements are text of their own.
  v1::Value message;
  message.set_version(value.version);
  message.set_num_contributions(value.num_contributions);
  v1::Tensor& tensor = *message.mutable_tensor();
  tensor.set_dtype(static_cast<v1::DType>(value.tensor.dtype()));
  const auto dimensions = value.tensor.shape().dimensions();
  tensor.mutable_shape()->Add(dimensions.begin(), dimensions.end());
  std::string json = MessageJson(key, message);
  json.pop_back();
  json += ",\"values\":[";
  for (int64_t i = 0; i < value.tensor.num_elements(); ++i) {
    absl::StrAppend(&json, i > 0 ? "," : "", ElementJson(value.tensor, i));
  }
  return json + "]}";
}

}  // namespace tensorkv
