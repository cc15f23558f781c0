// Reads the tensors of messages, and what else a WireReader alone cannot check.

#ifndef TENSORKV_CONTRACT_MESSAGE_READER_H_
#define TENSORKV_CONTRACT_MESSAGE_READER_H_

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
#include "tensor/packing.h"
#include "tensor/tensor.h"

namespace tensorkv::wire {

// Reads one message. Most of its tensors have the type of the one before: then
// all that comes before the elements is the same bytes again, and says the same
// again. Not thread-safe.
class MessageReader : public WireReader {
 public:
  // The message is the first `message_bytes` of `in`, and has at most
  // `max_entries` entries. Where elements are is appended to `payloads`, which
  // outlives the reader.
  MessageReader(google::protobuf::io::ZeroCopyInputStream* in,
                uint64_t message_bytes, uint32_t max_entries, Elements elements,
                std::vector<PayloadRange>* payloads);

  // Has the tensors that are yet to be read be without elements.
  void LeaveOutElements() { elements_ = Elements::kLeftOut; }

  uint32_t max_entries() const { return max_entries_; }
  std::vector<PayloadRange>& payloads() const { return payloads_; }

  // Has the message fail for want of a field.
  void FailMissing(absl::string_view field);
  // Returns the value; without one, the message fails with the error.
  template <typename T>
  T ValueOr(absl::StatusOr<T> value, T otherwise) {
    if (value.ok()) return *std::move(value);
    Fail(value.status());
    return otherwise;
  }

  // Reads the tensor in the field `tag`, which must be there. What it returns
  // is valid until the next call.
  const Tensor& ReadTensor(Tag tag) {
    if (header_bytes_ > 0 && AcceptBytes({header_.data(), header_bytes_})) {
      payloads_.push_back({position(), payload_bytes_});
      // The message around it fails where that is beyond its end.
      Skip(payload_bytes_);
    } else {
      ReadAnew(tag);
    }
    return type_;
  }
  // Reads a tensor that is packed like that, whose payload becomes `*tensor`.
  RefPtr<const Encoding> ReadEncoded(Tag tag, const Packing& packing,
                                     Tensor* tensor);
  // Reads ids of rows with their elements. Null if there are none, or no valid
  // ones: then the message has failed.
  RefPtr<const RowIds> ReadRows(Tag tag);

 private:
  // Holds what a Tensor message says of its elements.
  struct TensorType {
    DType dtype = DType::kUnknown;
    Shape shape;
    uint64_t size_bytes = 0;
  };

  // Reads a tensor up to its elements, which are next.
  TensorType ReadType();
  Shape ReadShape();
  // Returns a tensor of that type, without data. Fails if its elements do not
  // take its bytes.
  Tensor MakeTensor(const TensorType& type);
  void ReadAnew(Tag tag);
  // Passes over the elements, and says where they are.
  void AddPayload(uint64_t size_bytes);

  const uint32_t max_entries_;
  Elements elements_;
  std::vector<PayloadRange>& payloads_;
  // Holds the bytes before the elements of the last tensor, from its tag on. It
  // is empty if these were not in one chunk, or more.
  std::array<char, 32> header_;
  size_t header_bytes_ = 0;
  uint64_t payload_bytes_ = 0;
  Tensor type_;  // without data
};

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_MESSAGE_READER_H_
