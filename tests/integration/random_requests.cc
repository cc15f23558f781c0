#include "tests/integration/random_requests.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "tensorkv/v1/peer.pb.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv::testing {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::MessageFactory;
using ::google::protobuf::MethodDescriptor;
using ::google::protobuf::Reflection;

// Deep enough for every message of the contract.
constexpr int kMaxDepth = 6;

// Stands for text that is no UTF-8: a message would not encode that itself.
constexpr char kNoUtf8Mark[] = "NO-UTF-8";
constexpr char kNoUtf8[] = "\xff\xfe\xc0\x80\xed\xa0\x80\xf8";
static_assert(sizeof(kNoUtf8) == sizeof(kNoUtf8Mark));

// The methods of all services.
const std::vector<const MethodDescriptor*>& Methods() {
  static const auto* const methods = [] {
    auto* const found = new std::vector<const MethodDescriptor*>;
    for (const auto* file : {v1::DescribeServerRequest::descriptor()->file(),
                             v1::PingRequest::descriptor()->file()}) {
      for (int i = 0; i < file->service_count(); ++i) {
        for (int j = 0; j < file->service(i)->method_count(); ++j) {
          found->push_back(file->service(i)->method(j));
        }
      }
    }
    return found;
  }();
  return *methods;
}

}  // namespace

RandomRequest RandomRequests::Next() {
  const MethodDescriptor& method =
      *Methods()[next_method_++ % Methods().size()];
  const std::unique_ptr<Message> message(MessageFactory::generated_factory()
                                             ->GetPrototype(method.input_type())
                                             ->New());
  quarters_set_ = 1 + Below(3);
  Fill(message.get(), 0);
  std::string bytes = absl::StrReplaceAll(message->SerializeAsString(),
                                          {{kNoUtf8Mark, kNoUtf8}});
  if (Below(3) == 0) bytes = Damaged(std::move(bytes));
  return {.method = absl::StrCat("/", method.service()->full_name(), "/",
                                 method.name()),
          .description = message->ShortDebugString().substr(0, 1000),
          .bytes = std::move(bytes)};
}

void RandomRequests::Fill(Message* message, int depth) {
  const auto& type = *message->GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    if (Below(4) < quarters_set_) SetField(message, *type.field(i), depth);
  }
  // Else few calls with a call_id would come further than to its check.
  auto* const id =
      google::protobuf::DynamicCastToGenerated<v1::CallId>(message);
  if (id != nullptr && Below(4) > 0) id->set_answered_below(id->sequence());
}

void RandomRequests::SetField(Message* message, const FieldDescriptor& field,
                              int depth) {
  const Reflection& reflection = *message->GetReflection();
  if (field.is_repeated()) {
    for (uint32_t n = Below(4); n > 0; --n) AddElement(message, field, depth);
    return;
  }
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.SetInt32(message, &field, Integer());
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.SetInt64(message, &field, Integer());
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.SetUInt32(message, &field, Integer());
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.SetUInt64(message, &field, Integer());
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.SetDouble(message, &field, Real());
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.SetFloat(message, &field, Real());
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.SetBool(message, &field, Below(2) == 1);
    case FieldDescriptor::CPPTYPE_ENUM:
      return reflection.SetEnumValue(message, &field, EnumNumber(field));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.SetString(
          message, &field,
          field.type() == FieldDescriptor::TYPE_BYTES ? Payload() : Text());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (depth < kMaxDepth) {
        Fill(reflection.MutableMessage(message, &field), depth + 1);
      }
  }
}

void RandomRequests::AddElement(Message* message, const FieldDescriptor& field,
                                int depth) {
  const Reflection& reflection = *message->GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.AddInt64(message, &field, Integer());
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.AddString(message, &field, Text());
    case FieldDescriptor::CPPTYPE_MESSAGE:
      if (depth < kMaxDepth) {
        Fill(reflection.AddMessage(message, &field), depth + 1);
      }
      return;
    default:
      return;  // the contract repeats nothing else
  }
}

int64_t RandomRequests::Integer() {
  constexpr int64_t kInteresting[] = {0,
                                      1,
                                      2,
                                      3,
                                      4,
                                      16,
                                      -1,
                                      -2,
                                      63,
                                      64,
                                      65,
                                      4097,
                                      2147483647,
                                      2147483648,
                                      4294967295,
                                      -2147483648,
                                      std::numeric_limits<int64_t>::max(),
                                      std::numeric_limits<int64_t>::min(),
                                      int64_t{1} << 62,
                                      int64_t{1} << 40};
  if (Below(8) == 0) return static_cast<int64_t>(random_()) << Below(32);
  if (Below(2) == 0) return Below(4);
  return kInteresting[Below(std::size(kInteresting))];
}

double RandomRequests::Real() {
  using Limits = std::numeric_limits<double>;
  const double kInteresting[] = {0,
                                 -0.0,
                                 1,
                                 -1,
                                 0.5,
                                 1e308,
                                 Limits::denorm_min(),
                                 Limits::infinity(),
                                 -Limits::infinity(),
                                 Limits::quiet_NaN()};
  return kInteresting[Below(std::size(kInteresting))];
}

std::string RandomRequests::Text() {
  if (Below(3) == 0) return Below(2) == 0 ? "w" : "";
  const std::string kInteresting[] = {"",
                                      "default",
                                      "w",
                                      "a/b",
                                      "*",
                                      "?*?",
                                      "assign",
                                      "sgd",
                                      "adam",
                                      "momentum",
                                      "scale",
                                      "new\nline",
                                      kNoUtf8Mark,
                                      std::string("\0nul", 4),
                                      std::string(2048, 'k'),
                                      absl::StrCat("random", Below(5))};
  return kInteresting[Below(std::size(kInteresting))];
}

std::string RandomRequests::Payload() {
  std::string bytes(Below(3) == 0 ? Below(5000) : 4 * Below(8), '\0');
  std::generate(bytes.begin(), bytes.end(), [this] { return Below(256); });
  return bytes;
}

int RandomRequests::EnumNumber(const FieldDescriptor& field) {
  if (Below(4) == 0) return static_cast<int>(Integer());
  return field.enum_type()
      ->value(Below(field.enum_type()->value_count()))
      ->number();
}

std::string RandomRequests::Damaged(std::string bytes) {
  if (bytes.empty() || Below(4) == 0) return Payload();
  if (Below(3) == 0) return bytes.substr(0, Below(bytes.size()));
  for (uint32_t n = 1 + Below(4); n > 0; --n) {
    bytes[Below(bytes.size())] ^= static_cast<char>(1 << Below(8));
  }
  return bytes;
}

}  // namespace tensorkv::testing
