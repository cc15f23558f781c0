// Reads the tensors of messages, and what says how they are packed.

#ifndef TENSORKV_CONTRACT_TENSOR_READER_H_
#define TENSORKV_CONTRACT_TENSOR_READER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/ref_counted.h"
#include "contract/encoded_message.h"
#include "contract/encoding.h"
#include "contract/payload_reader.h"
#include "contract/row_ids.h"
#include "contract/wire_reader.h"
#include "contract/wire_tags.h"
#include "tensor/dtype.h"
#include "tensor/packing.h"
#include "tensor/tensor.h"

namespace tensorkv::wire {

// Has the message fail for want of a field.
void FailMissing(WireReader& in, absl::string_view field);

// Returns the value; without one, the message fails with the error.
template <typename T>
T ValueOr(WireReader& in, absl::StatusOr<T> value, T otherwise) {
  if (value.ok()) return *std::move(value);
  in.Fail(value.status());
  return otherwise;
}

// Reads a number as the generated code reads an enum.
inline int ReadEnum(WireReader& in) {
  return static_cast<int>(in.ReadNumber());
}

DType ReadDTypeIfPresent(WireReader& in, Tag tag);

// Reads ids of rows with their elements. Null if there are none, or no valid
// ones: then the message has failed.
RefPtr<const RowIds> ReadRows(WireReader& in, Tag tag);

// Reads an encoding, whose tag was read.
Packing ReadPacking(WireReader& in);

// Reads the tensors of one message. Most of them have the type of the one
// before: then all that comes before the elements is the same bytes again, and
// says the same again. Not thread-safe.
class TensorReader {
 public:
  // Appends where elements are to `payloads`, which outlives the reader.
  TensorReader(Elements elements, std::vector<PayloadRange>* payloads)
      : elements_(elements), payloads_(*payloads) {}

  // Reads the field `tag`, which must be there. What it returns is valid until
  // the next call.
  const Tensor& Read(WireReader& in, Tag tag) {
    if (size_ > 0 && in.AcceptBytes({header_.data(), size_})) {
      payloads_.push_back({in.position(), payload_bytes_});
      if (payload_bytes_ > in.bytes_left()) in.Fail();
      in.Skip(payload_bytes_);
    } else {
      ReadAnew(in, tag);
    }
    return type_;
  }

  // Reads a tensor that is packed like that, whose payload becomes `*tensor`.
  RefPtr<const Encoding> ReadEncoded(WireReader& in, Tag tag,
                                     const Packing& packing, Tensor* tensor);

  // An entry without a tensor has no payload.
  void ReadNothing() { payloads_.push_back({}); }

 private:
  void ReadAnew(WireReader& in, Tag tag);
  // Passes over the elements, and says where they are.
  void AddPayload(WireReader& in, uint64_t size_bytes);

  const Elements elements_;
  std::vector<PayloadRange>& payloads_;
  // What came before the elements of the last one, from its tag on. Empty if
  // that was not in one chunk, or longer.
  std::array<char, 32> header_;
  size_t size_ = 0;
  uint64_t payload_bytes_ = 0;
  Tensor type_;  // without data
};

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_TENSOR_READER_H_
