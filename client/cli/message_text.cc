#include "client/cli/message_text.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/cli/plain_text.h"
#include "client/cli/step_text.h"
#include "contract/proto_codec.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/duration.pb.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/timestamp.pb.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"

namespace tensorkv {
namespace {

using google::protobuf::DynamicCastToGenerated;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using Rows = std::vector<std::vector<std::string>>;

// The index that protobuf takes for a field that is not repeated.
constexpr int kSingular = -1;

const Message& MessageIn(const Message& message, const FieldDescriptor& field,
                         int index) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  return index == kSingular
             ? reflection.GetMessage(message, &field)
             : reflection.GetRepeatedMessage(message, &field, index);
}

// Returns the text of a message that is one value to people, if it is such.
std::optional<std::string> TextOfOne(const Message& message) {
  if (const auto* rule = DynamicCastToGenerated<v1::Rule>(&message)) {
    return FromProto(*rule).ToString();
  }
  if (const auto* list =
          DynamicCastToGenerated<v1::StepContributors>(&message)) {
    return TextOf(*list);
  }
  if (const auto* failure = DynamicCastToGenerated<v1::StepFailure>(&message)) {
    return TextOf(*failure);
  }
  if (const auto* worker = DynamicCastToGenerated<v1::StepWorker>(&message)) {
    return TextOf(*worker);
  }
  if (const auto* time =
          DynamicCastToGenerated<google::protobuf::Timestamp>(&message)) {
    return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ",
                            absl::FromUnixSeconds(time->seconds()),
                            absl::UTCTimeZone());
  }
  if (const auto* time =
          DynamicCastToGenerated<google::protobuf::Duration>(&message)) {
    return absl::FormatDuration(absl::Seconds(time->seconds()) +
                                absl::Nanoseconds(time->nanos()));
  }
  return std::nullopt;
}

// Returns the name of an enum's value as the flags have it: "sync" of
// MODE_SYNC.
std::string ChoiceText(const FieldDescriptor& field, absl::string_view name) {
  absl::string_view prefix = field.enum_type()->value(0)->name();
  absl::ConsumeSuffix(&prefix, "UNSPECIFIED");
  absl::ConsumePrefix(&name, prefix);
  return absl::AsciiStrToLower(name);
}

bool IsBytes(const FieldDescriptor& field) {
  return absl::EndsWith(field.name(), "bytes") ||
         field.containing_type() == v1::MemoryUse::descriptor();
}

std::string ScalarText(const Message& message, const FieldDescriptor& field,
                       int index) {
  std::string text;
  google::protobuf::TextFormat::PrintFieldValueToString(message, &field, index,
                                                        &text);
  if (field.enum_type() != nullptr) return ChoiceText(field, text);
  uint64_t number;
  if (!absl::SimpleAtoi(text, &number)) return text;
  if (field.type() == FieldDescriptor::TYPE_FIXED64) {
    return absl::StrFormat("%016x", number);
  }
  return IsBytes(field) ? ByteText(number) : text;
}

std::string StringText(const Message& message, const FieldDescriptor& field,
                       int index) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::string text = index == kSingular
                         ? reflection.GetString(message, &field)
                         : reflection.GetRepeatedString(message, &field, index);
  return text.empty() ? "\"\"" : text;
}

// Adds a row for each field, {prefix + its name, its value}.
void AddRows(const Message& message, const std::string& prefix, Rows& rows);

std::string SingleText(const Message& message, const FieldDescriptor& field,
                       int index);

// Returns an entry of a map as "name=value".
std::string EntryText(const Message& entry) {
  const google::protobuf::Descriptor& type = *entry.GetDescriptor();
  return absl::StrCat(SingleText(entry, *type.map_key(), kSingular), "=",
                      SingleText(entry, *type.map_value(), kSingular));
}

std::string SingleText(const Message& message, const FieldDescriptor& field,
                       int index) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE: {
      const Message& value = MessageIn(message, field, index);
      if (const auto text = TextOfOne(value)) return *text;
      if (field.is_map()) return EntryText(value);
      Rows rows;
      AddRows(value, "", rows);
      return absl::StrJoin(rows, " ", [](std::string* out, const auto& row) {
        absl::StrAppend(out, row[0], "=", row[1]);
      });
    }
    case FieldDescriptor::CPPTYPE_STRING:
      return StringText(message, field, index);
    default:
      return ScalarText(message, field, index);
  }
}

std::string FieldText(const Message& message, const FieldDescriptor& field) {
  if (!field.is_repeated()) return SingleText(message, field, kSingular);
  std::vector<std::string> texts;
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field);
       ++i) {
    texts.push_back(SingleText(message, field, i));
  }
  if (field.is_map()) absl::c_sort(texts);
  return absl::StrCat("[", absl::StrJoin(texts, ","), "]");
}

void AddField(const Message& message, const FieldDescriptor& field,
              const std::string& name, Rows& rows) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  const bool is_message = field.message_type() != nullptr;
  if (field.is_map()) {
    rows.push_back({name, FieldText(message, field)});
  } else if (field.is_repeated() && is_message) {
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      rows.push_back({name, SingleText(message, field, i)});
    }
  } else if (is_message && !TextOfOne(MessageIn(message, field, kSingular))) {
    AddRows(MessageIn(message, field, kSingular), name + ".", rows);
  } else {
    rows.push_back({name, FieldText(message, field)});
  }
}

void AddRows(const Message& message, const std::string& prefix, Rows& rows) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.has_presence() &&
        !message.GetReflection()->HasField(message, &field)) {
      continue;
    }
    AddField(message, field, prefix + field.name(), rows);
  }
}

// REQUIRES: the path names a field of the message.
std::string CellText(const Message& message, absl::string_view path) {
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  const Message* holder = &message;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    holder =
        &MessageIn(*holder, *holder->GetDescriptor()->FindFieldByName(names[i]),
                   kSingular);
  }
  const FieldDescriptor& field =
      *holder->GetDescriptor()->FindFieldByName(names.back());
  const bool is_absent = field.has_presence() &&
                         !holder->GetReflection()->HasField(*holder, &field);
  return is_absent ? "-" : FieldText(*holder, field);
}

// Returns the code points of UTF-8, which most terminals give a cell each.
size_t WidthOf(absl::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char each) {
    return (static_cast<uint8_t>(each) & 0xc0) != 0x80;
  });
}

std::vector<size_t> ColumnWidths(const Rows& rows) {
  std::vector<size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    if (row.size() > widths.size()) widths.resize(row.size());
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], WidthOf(row[i]));
    }
  }
  return widths;
}

}  // namespace

std::string MessageJson(const Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &json, options);
  // A server may send times that JSON has no form for.
  return status.ok() ? json
                     : nlohmann::json{{"error", status.ToString()}}.dump();
}

std::string MessageJson(absl::string_view key, const Message& message) {
  // Whatever bytes the user typed: JSON is UTF-8.
  return absl::StrCat(
      "{\"key\":",
      nlohmann::json(std::string(key))
          .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
      ",", MessageJson(message).substr(1));
}

std::string MessageText(const Message& message) {
  Rows rows;
  AddRows(message, "", rows);
  for (std::vector<std::string>& row : rows) row[0] += ":";
  return TableText(std::move(rows));
}

std::string MessageTable(const std::vector<const Message*>& messages,
                         const std::vector<std::string>& columns) {
  Rows rows(1);
  for (const std::string& column : columns) {
    rows[0].push_back(column.substr(column.rfind('.') + 1));
  }
  for (const Message* message : messages) {
    std::vector<std::string>& row = rows.emplace_back();
    for (const std::string& column : columns) {
      row.push_back(CellText(*message, column));
    }
  }
  return TableText(std::move(rows));
}

std::string TableText(Rows rows) {
  for (std::vector<std::string>& row : rows) {
    for (std::string& cell : row) cell = PlainText(cell);
  }
  const std::vector<size_t> widths = ColumnWidths(rows);
  std::string text;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      absl::StrAppend(&line, row[i],
                      std::string(widths[i] - WidthOf(row[i]) + 2, ' '));
    }
    absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
  }
  return text;
}

std::string ByteText(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double scaled = bytes / 1024.0;
  int unit = 0;
  for (; scaled >= 1024; ++unit) scaled /= 1024;
  return absl::StrFormat("%.1f %s", scaled, units[unit]);
}

}  // namespace tensorkv
