#include "tests/contract/random_messages.h"

#include <cmath>
#include <iterator>
#include <utility>

#include "absl/algorithm/container.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv::testing {
namespace {

// Whether the codec may write a message without the field: it writes all
// others.
bool MayBeAbsent(const google::protobuf::FieldDescriptor& field) {
  static constexpr absl::string_view kNames[] = {
      "call_id", "digest", "encoding", "gradient_guard", "schedule"};
  return absl::c_linear_search(kNames, field.name()) ||
         field.real_containing_oneof() != nullptr ||
         (field.name() == "worker" &&
          field.file() == v1::PushRequest::descriptor()->file());
}

// Any that is valid.
template <typename Random>
RefPtr<const Encoding> RandomEncoding(Random below, const Shape& shape) {
  constexpr uint8_t kElements[] = {5, 6, 7};
  DType dtype = DType::kF32;
  Packing packing = {.kind = static_cast<PackingKind>(1 + below(6))};
  switch (packing.kind) {
    case PackingKind::kTwoBit:
    case PackingKind::kOneBit:
      packing.scale = std::ldexp(1.0f, static_cast<int>(below(250)) - 149);
      break;
    case PackingKind::kTopK:
      dtype = below(2) == 0 ? DType::kF64 : DType::kF16;
      packing.count = below(shape.num_elements() + 1);
      break;
    case PackingKind::kRandomK:
      packing.block_size = 1 + static_cast<uint32_t>(below(1000));
      packing.seed = below(UINT64_MAX);
      break;
    case PackingKind::kDithering:
      packing.bits = uint8_t{2} << below(3);
      packing.scale = 0.1f;
      packing.is_natural = below(2) == 0;
      break;
    case PackingKind::kBlocks:
      packing.element_dtype = kElements[below(std::size(kElements))];
      packing.block_size = 1 + static_cast<uint32_t>(below(1000));
      break;
  }
  return Encoding::Create(packing, dtype, shape).value();
}

// A call of rows is one if an entry has some.
template <typename Call>
bool HasRows(const Call& call) {
  return absl::c_any_of(call.entries(),
                        [](const auto& entry) { return entry.has_rows(); });
}

template <typename Entries>
void ClearData(Entries* entries) {
  for (auto& entry : *entries) {
    if (entry.has_tensor()) entry.mutable_tensor()->clear_data();
  }
}

}  // namespace

// --- Any message ------------------------------------------------------------

void RandomMessages::Fill(Message* message) {
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = message->GetDescriptor()->field(i);
    uint64_t count = field->is_repeated() ? Below(4) : 1;
    if (MayBeAbsent(*field)) count = Below(2);
    for (; count > 0; --count) Put(field, message);
  }
  MakeValidAnyOf<v1::Tensor, v1::PushEntry, v1::PushRowsEntry,
                 v1::PullRowsEntry, v1::InitManifest, v1::PushManifest,
                 v1::PullManifest, v1::PullResponse, v1::PushPullResponse,
                 v1::PullRowsResponse, v1::GetStateResponse, v1::KeyStatus,
                 v1::Schedule, v1::Stripe, v1::PublishAs, v1::ClusterPlacement,
                 google::protobuf::Duration>(message);
}

template <typename... Types>
void RandomMessages::MakeValidAnyOf(Message* message) {
  const auto mend = [&](auto* typed) {
    if (typed != nullptr) MakeValid(*typed);
  };
  (mend(google::protobuf::DynamicCastToGenerated<Types>(message)), ...);
}

void RandomMessages::Put(const FieldDescriptor* field, Message* message) {
  using google::protobuf::Reflection;
  const auto put = [&](auto set, auto add, auto value) {
    const auto method = field->is_repeated() ? add : set;
    (message->GetReflection()->*method)(message, field, value);
  };
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_UINT64:
      return put(&Reflection::SetUInt64, &Reflection::AddUInt64, Number());
    case FieldDescriptor::CPPTYPE_UINT32:
      return put(&Reflection::SetUInt32, &Reflection::AddUInt32,
                 static_cast<uint32_t>(Number()));
    case FieldDescriptor::CPPTYPE_INT64:
      return put(&Reflection::SetInt64, &Reflection::AddInt64,
                 static_cast<int64_t>(Number()));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return put(&Reflection::SetDouble, &Reflection::AddDouble,
                 std::normal_distribution<double>()(random_));
    case FieldDescriptor::CPPTYPE_BOOL:
      return put(&Reflection::SetBool, &Reflection::AddBool, Half());
    case FieldDescriptor::CPPTYPE_STRING:
      return put(&Reflection::SetString, &Reflection::AddString,
                 field->type() == FieldDescriptor::TYPE_BYTES
                     ? Bytes(static_cast<int64_t>(Below(300)))
                     : Text());
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto& type = *field->enum_type();
      // What is unspecified means the first, which the codec writes. Only a
      // dtype may be none.
      if (field->enum_type() == v1::DType_descriptor() && Half()) return;
      return put(
          &Reflection::SetEnum, &Reflection::AddEnum,
          type.value(1 + static_cast<int>(Below(type.value_count() - 1))));
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return PutMessage(field, message);
    default:
      return;  // those of encodings and durations, which are mended
  }
}

void RandomMessages::PutMessage(const FieldDescriptor* field,
                                Message* message) {
  const auto& reflection = *message->GetReflection();
  if (!field->is_repeated()) {
    return Fill(reflection.MutableMessage(message, field));
  }
  Message* const element = reflection.AddMessage(message, field);
  const int index = reflection.FieldSize(*message, field) - 1;
  // Calls have long runs of tensors of one type.
  if (index > 0 && Half() &&
      field->message_type()->FindFieldByName("tensor") != nullptr) {
    element->CopyFrom(
        reflection.GetRepeatedMessage(*message, field, index - 1));
  } else {
    Fill(element);
  }
}

// Zero, which the wire leaves out, more often than by chance.
uint64_t RandomMessages::Number() {
  return Below(4) == 0 ? 0 : random_() >> Below(64);
}

std::string RandomMessages::Text() {
  static constexpr const char* kLetters[] = {
      "a", "b", ".", "/", " ", "\xc3\xa9", "\xe2\x88\x91", "\"", "%"};
  std::string text;
  for (uint64_t length = Below(40); length > 0; --length) {
    text += kLetters[Below(std::size(kLetters))];
  }
  return text;
}

std::string RandomMessages::Bytes(int64_t size) {
  std::string bytes(size, 0);
  for (char& byte : bytes) byte = static_cast<char>(random_());
  return bytes;
}

// --- Tensors ----------------------------------------------------------------

int64_t RandomMessages::DrawShape(
    google::protobuf::RepeatedField<int64_t>* shape) {
  shape->Clear();
  int64_t num_elements = 1;
  for (uint64_t rank = Below(Shape::kMaxRank + 1); rank > 0; --rank) {
    shape->Add(static_cast<int64_t>(Below(4)));
    num_elements *= *shape->rbegin();
  }
  return num_elements;
}

void RandomMessages::MakeValid(v1::Tensor& tensor) {
  const DType dtype = kAllDTypes[Below(std::size(kAllDTypes))];
  std::string data = Bytes(DrawShape(tensor.mutable_shape()) * SizeOf(dtype));
  if (dtype == DType::kBool) {
    for (char& byte : data) byte &= 1;
  }
  tensor.set_dtype(static_cast<v1::DType>(dtype));
  tensor.clear_location();
  if (!data.empty()) tensor.set_data(std::move(data));
}

void RandomMessages::DrawRows(v1::Tensor* rows) {
  rows->Clear();
  const bool is_wide = Half();
  const auto num_rows = static_cast<int64_t>(Below(20));
  rows->set_dtype(is_wide ? v1::DTYPE_I64 : v1::DTYPE_I32);
  rows->add_shape(num_rows);
  if (num_rows > 0) rows->set_data(Bytes(num_rows * (is_wide ? 8 : 4)));
}

template <typename Entry>
void RandomMessages::MakeValidContribution(Entry& entry) {
  if (entry.skip()) {
    entry.clear_encoding();
    entry.clear_tensor();
  } else if (entry.has_encoding()) {
    google::protobuf::RepeatedField<int64_t> shape;
    DrawShape(&shape);
    PushEntry drawn;
    drawn.encoding = RandomEncoding(
        [this](uint64_t bound) { return Below(bound); },
        *Shape::Create(std::vector<int64_t>(shape.begin(), shape.end())));
    const std::string payload = Bytes(drawn.encoding->payload_bytes());
    drawn.tensor = *Tensor::CopyOf(
        DType::kU8, {drawn.encoding->payload_bytes()}, payload.data());
    v1::PushRequest written;
    ToProto(PushRequest{.entries = {drawn}}, &written);
    *entry.mutable_encoding() = written.entries(0).encoding();
    *entry.mutable_tensor() = written.entries(0).tensor();
  }
}

// --- Entries and calls ------------------------------------------------------

template <typename Entry>
void RandomMessages::DrawWeight(Entry& entry) {
  if (Half()) entry.set_weight(0);
  if (entry.skip() || Half()) entry.clear_weight();
}

void RandomMessages::MakeValid(v1::PushEntry& entry) {
  MakeValidContribution(entry);
  if (entry.skip()) entry.clear_delta();
  DrawWeight(entry);
}

void RandomMessages::MakeValid(v1::PushRowsEntry& entry) {
  MakeValidContribution(entry);
  DrawRows(entry.mutable_rows());
  if (entry.skip()) entry.clear_rows();
  DrawWeight(entry);
}

void RandomMessages::MakeValid(v1::PullRowsEntry& entry) {
  DrawRows(entry.mutable_rows());
}

void RandomMessages::MakeValid(v1::InitManifest& manifest) {
  if (manifest.has_set_state()) {
    return ClearData(manifest.mutable_set_state()->mutable_entries());
  }
  if (!manifest.has_init()) Fill(manifest.mutable_init());
  ClearData(manifest.mutable_init()->mutable_entries());
}

void RandomMessages::MakeValid(v1::PushManifest& manifest) {
  if (manifest.has_push_pull()) {
    v1::PushRequest* const push = manifest.mutable_push_pull()->mutable_push();
    return ClearData(push->mutable_entries());
  }
  if (HasRows(manifest.push_rows())) {
    return ClearData(manifest.mutable_push_rows()->mutable_entries());
  }
  if (!manifest.has_push()) Fill(manifest.mutable_push());
  ClearData(manifest.mutable_push()->mutable_entries());
}

void RandomMessages::MakeValid(v1::PullManifest& manifest) {
  ClearData(manifest.mutable_values());
}

template <typename Reply>
void RandomMessages::ClearDataIfTicket(Reply& reply) {
  if (reply.has_ticket()) ClearData(reply.mutable_values());
}
void RandomMessages::MakeValid(v1::PullResponse& reply) {
  ClearDataIfTicket(reply);
}
void RandomMessages::MakeValid(v1::PushPullResponse& reply) {
  ClearDataIfTicket(reply);
}
void RandomMessages::MakeValid(v1::PullRowsResponse& reply) {
  ClearDataIfTicket(reply);
}
void RandomMessages::MakeValid(v1::GetStateResponse& reply) {
  ClearDataIfTicket(reply);
}

// --- The others -------------------------------------------------------------

void RandomMessages::MakeValid(v1::KeyStatus& status) {
  DrawShape(status.mutable_shape());
}

void RandomMessages::MakeValid(v1::Schedule& schedule) {
  if (schedule.name().empty()) schedule.set_name("s");
}

void RandomMessages::MakeValid(v1::Stripe& stripe) {
  stripe.set_count(1 + Below(64));
  stripe.set_index(Below(stripe.count()));
  stripe.set_group(random_() | 1);
}

void RandomMessages::MakeValid(v1::PublishAs& publish_as) {
  auto& metadata = *publish_as.mutable_metadata();
  while (metadata.size() > 1) metadata.erase(metadata.begin());
}

void RandomMessages::MakeValid(v1::ClusterPlacement& placement) {
  if (placement.servers().empty()) Fill(placement.add_servers());
  if (placement.owners().empty()) placement.add_owners(0);
  for (uint32_t& owner : *placement.mutable_owners()) {
    owner %= placement.servers_size();
  }
  for (v1::LostPartitions& lost : *placement.mutable_lost()) {
    for (uint32_t& partition : *lost.mutable_partitions()) {
      partition %= placement.owners_size();
    }
  }
}

void RandomMessages::MakeValid(google::protobuf::Duration& duration) {
  const int sign = Half() ? 1 : -1;
  duration.set_seconds(sign * static_cast<int64_t>(Below(1'000'000'000)));
  duration.set_nanos(sign * static_cast<int>(Below(1'000'000'000)));
}

}  // namespace tensorkv::testing
