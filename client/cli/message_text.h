// Messages of the contract as JSON, and as text for people.

#ifndef TENSORKV_CLIENT_CLI_MESSAGE_TEXT_H_
#define TENSORKV_CLIENT_CLI_MESSAGE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "google/protobuf/message.h"

namespace tensorkv {

// Returns protobuf's JSON of the message on one line, with the names of the
// fields as in proto/ and with those that are 0 or empty.
std::string MessageJson(const google::protobuf::Message& message);

// Returns the MessageJson with the member "key" first.
std::string MessageJson(absl::string_view key,
                        const google::protobuf::Message& message);

// Returns a line for each field that is not absent, as "config.mode:  sync".
// Enums are without their prefix, bytes have a unit, fixed64 is hexadecimal, a
// rule is as ParseRuleSpec takes it. Of repeated messages each has a line, as
// "rules:  key_pattern=*.bias rule=sgd"; a map has one, in byte order.
std::string MessageText(const google::protobuf::Message& message);

// Returns a table with a line per message, of fields that are written as by
// MessageText. A column is the path of a field, such as "config.mode"; its
// header is the field's own name. One that is absent is "-".
std::string MessageTable(
    const std::vector<const google::protobuf::Message*>& messages,
    const std::vector<std::string>& columns);

// Returns a line per row, columns aligned to the left, two blanks between them.
// Cells are PlainText.
std::string TableText(std::vector<std::vector<std::string>> rows);

// Returns "24 B", or "1.5 GiB".
std::string ByteText(uint64_t bytes);

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_CLI_MESSAGE_TEXT_H_
