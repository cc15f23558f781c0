// The kinds of fields that messages with tensors have, each with how it is read
// and written. A kind is named by the number of a field, and by the member of a
// struct that has its value.

#ifndef TENSORKV_CONTRACT_FIELD_KINDS_H_
#define TENSORKV_CONTRACT_FIELD_KINDS_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <type_traits>

#include "absl/base/attributes.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "contract/message_reader.h"
#include "contract/proto_codec.h"
#include "contract/wire_tags.h"
#include "contract/wire_writer.h"

namespace tensorkv::wire {

// The fields of a message, in ascending order, as it is read; it is written
// from its end. Fields may be among fields.
template <typename... Field>
struct Fields {
  template <typename Reader, typename T>
  static void Read(Reader&, T&) {}
  template <typename T>
  static void Write(const T&, WireWriter&) {}
};
template <typename First, typename... Rest>
struct Fields<First, Rest...> {
  template <typename Reader, typename T>
  ABSL_ATTRIBUTE_ALWAYS_INLINE static void Read(Reader& in, T& message) {
    First::Read(in, message);
    Fields<Rest...>::Read(in, message);
  }
  template <typename T>
  ABSL_ATTRIBUTE_ALWAYS_INLINE static void Write(const T& message,
                                                 WireWriter& out) {
    Fields<Rest...>::Write(message, out);
    First::Write(message, out);
  }
};

template <auto kMember>
struct MemberOf;
template <typename Struct, typename Member, Member Struct::*kMember>
struct MemberOf<kMember> {
  using Type = Member;
};

// A string.
template <int kNumber, auto kMember>
struct Text {
  template <typename T>
  static void Read(WireReader& in, T& message) {
    if (in.Accept(RunTag(kNumber))) in.ReadText(&(message.*kMember));
  }
  template <typename T>
  static void Write(const T& message, WireWriter& out) {
    out.Bytes(RunTag(kNumber), message.*kMember);
  }
};

// Bytes, which need not be UTF-8.
template <int kNumber, auto kMember>
struct Bytes : Text<kNumber, kMember> {
  template <typename T>
  static void Read(WireReader& in, T& message) {
    if (in.Accept(RunTag(kNumber))) in.ReadBytes(&(message.*kMember));
  }
};

// An unsigned number or a bool. A member of one byte stands for a number of
// four: what is out of its range stays so.
template <int kNumber, auto kMember>
struct Number {
  using Type = typename MemberOf<kMember>::Type;
  static constexpr uint64_t kMax = sizeof(Type) == sizeof(uint64_t) ? UINT64_MAX
                                   : std::is_same_v<Type, bool>     ? 1
                                                                : UINT32_MAX;

  template <typename T>
  static void Read(WireReader& in, T& message) {
    message.*kMember =
        in.Accept(NumberTag(kNumber))
            ? static_cast<Type>(std::min<uint64_t>(
                  in.ReadNumberUpTo(kMax), std::numeric_limits<Type>::max()))
            : Type();
  }
  template <typename T>
  static void Write(const T& message, WireWriter& out) {
    out.Number(NumberTag(kNumber), message.*kMember);
  }
};

// One of the ReplyBounds of a request.
template <int kNumber, auto kMember, uint64_t ReplyBounds::*kBound>
struct ReplyBound : Number<kNumber, kMember> {
  template <typename T>
  static void Write(const T& request, WireWriter& out) {
    const std::optional<ReplyBounds>& bounds = out.options().reply_bounds;
    out.Number(NumberTag(kNumber),
               bounds ? (*bounds).*kBound : request.*kMember);
  }
};

// A fixed64, double or float.
template <int kNumber, auto kMember>
struct Fixed {
  using Type = typename MemberOf<kMember>::Type;
  using Bits = std::conditional_t<sizeof(Type) == 8, uint64_t, uint32_t>;
  static constexpr Tag kTag =
      sizeof(Bits) == 8 ? Fixed64Tag(kNumber) : Fixed32Tag(kNumber);

  template <typename T>
  static void Read(WireReader& in, T& message) {
    if (in.Accept(kTag)) {
      message.*kMember = std::bit_cast<Type>(in.ReadFixed<Bits>());
    }
  }
  template <typename T>
  static void Write(const T& message, WireWriter& out) {
    out.Fixed(kTag, std::bit_cast<Bits>(message.*kMember));
  }
};

// An optional double that is 1 where it is absent, and absent where it is 1.
template <int kNumber, auto kMember>
struct Weight {
  static constexpr Tag kTag = Fixed64Tag(kNumber);

  template <typename T>
  static void Read(WireReader& in, T& message) {
    if (!in.Accept(kTag)) return;
    message.*kMember = std::bit_cast<double>(in.ReadPresentFixed<uint64_t>());
  }
  template <typename T>
  static void Write(const T& message, WireWriter& out) {
    if (message.*kMember == 1) return;
    out.PresentFixed(kTag, std::bit_cast<uint64_t>(message.*kMember));
  }
};

// The number of a choice; one that is not there leaves its default.
inline void SetChoice(MessageReader& in, int number, OnExisting& choice) {
  choice = in.ValueOr(DecodeOnExisting(static_cast<v1::OnExisting>(number)),
                      OnExisting::kFail);
}
inline void SetChoice(MessageReader& in, int number, DType& dtype) {
  dtype = in.ValueOr(DTypeFromNumber(number), DType::kUnknown);
}
inline void SetChoice(MessageReader&, int number, uint8_t& dtype) {
  dtype = static_cast<uint8_t>(std::clamp(number, 0, UINT8_MAX));
}
inline uint64_t NumberOf(OnExisting choice) { return EncodeOnExisting(choice); }
inline uint64_t NumberOf(DType dtype) { return static_cast<uint64_t>(dtype); }
inline uint64_t NumberOf(uint8_t dtype) { return dtype; }

template <int kNumber, auto kMember>
struct Choice {
  template <typename T>
  static void Read(MessageReader& in, T& message) {
    if (!in.Accept(NumberTag(kNumber))) return;
    SetChoice(in, static_cast<int>(in.ReadNumber()), message.*kMember);
  }
  template <typename T>
  static void Write(const T& message, WireWriter& out) {
    out.Number(NumberTag(kNumber), NumberOf(message.*kMember));
  }
};

// A message that need not be there, of the fields `Inner`.
template <typename Inner, int kNumber, auto kMember>
struct Message {
  template <typename T>
  static void Read(MessageReader& in, T& message) {
    if (!in.Accept(RunTag(kNumber))) return;
    auto& inner = (message.*kMember).emplace();
    in.ReadMessage([&] { Inner::Read(in, inner); });
  }
  template <typename T>
  static void Write(const T& message, WireWriter& out) {
    if (!(message.*kMember)) return;
    out.Message(RunTag(kNumber),
                [&] { Inner::Write(*(message.*kMember), out); });
  }
};

// A message that need not be there, and whose fields are left to the generated
// code: one that few calls have. It takes some of its bytes thirty times in
// memory, so that it has a bound: by default one well above that of a valid
// PublishAs.
inline constexpr size_t kMaxGeneratedBytes = 32 << 10;
template <int kNumber, auto kMember, size_t kMaxBytes = kMaxGeneratedBytes>
struct Generated {
  template <typename T>
  static void Read(MessageReader& in, T& message) {
    if (in.Accept(RunTag(kNumber))) ReadPresent(in, message);
  }
  template <typename T>
  static void Write(const T& message, WireWriter& out) {
    if (message.*kMember) WritePresent(*(message.*kMember), out);
  }

 private:
  template <typename T>
  ABSL_ATTRIBUTE_NOINLINE static void ReadPresent(MessageReader& in,
                                                  T& message) {
    std::string bytes;
    in.ReadBytes(&bytes);
    auto& inner = (message.*kMember).emplace();
    if (bytes.size() > kMaxBytes) {
      return in.Fail(absl::InvalidArgumentError(
          absl::StrCat(inner.GetDescriptor()->name(), ": expected at most ",
                       kMaxBytes, " bytes, got ", bytes.size())));
    }
    if (!inner.ParseFromString(bytes)) in.Fail();
    // Whoever keeps a call does not count them.
    inner.DiscardUnknownFields();
  }
  template <typename Inner>
  ABSL_ATTRIBUTE_NOINLINE static void WritePresent(const Inner& inner,
                                                   WireWriter& out) {
    const std::string bytes = inner.SerializeAsString();
    out.Message(RunTag(kNumber), [&] { out.Copy(bytes); });
  }
};

inline Payload PayloadOf(const Tensor& tensor) {
  return {tensor.buffer(),
          {tensor.data(), static_cast<size_t>(tensor.size_bytes())}};
}

// The tensor of an entry, which must be there.
template <int kNumber, auto kMember>
struct WholeTensor {
  template <typename T>
  static void Read(MessageReader& in, T& entry) {
    entry.*kMember = in.ReadTensor(RunTag(kNumber));
  }
  template <typename T>
  static void Write(const T& entry, WireWriter& out) {
    const Tensor& tensor = entry.*kMember;
    out.Tensor(RunTag(kNumber), tensor.dtype(), tensor.shape(),
               PayloadOf(tensor), out.options().elements);
  }
};

// Ids of rows, which must be there, and whose elements manifests have too.
template <int kNumber, auto kMember>
struct Rows {
  template <typename T>
  static void Read(MessageReader& in, T& entry) {
    entry.*kMember = in.ReadRows(RunTag(kNumber));
  }
  template <typename T>
  static void Write(const T& entry, WireWriter& out) {
    if (!(entry.*kMember)) return;
    const Tensor& ids = (entry.*kMember)->tensor();
    out.Tensor(RunTag(kNumber), ids.dtype(), ids.shape(), PayloadOf(ids),
               Elements::kPresent);
  }
};

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_FIELD_KINDS_H_
