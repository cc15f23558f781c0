#include "service/rpc/payload_decoder.h"

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "base/status_macros.h"
#include "contract/payload_reader.h"
#include "grpc/slice.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "grpcpp/support/slice.h"
#include "service/rpc/message_codec.h"
#include "tensor/bool_elements.h"
#include "tensor/buffer.h"

namespace tensorkv {

namespace {

// The store gives memory for whole tensors; rows and states are copied once
// more, to where they belong.
template <typename Request>
inline constexpr bool kIsStaged = !kIsOfRows<Request> && !kIsOfStates<Request>;

// Smaller messages may be parts of what was received at once, all of which a
// tensor would keep.
constexpr size_t kMinBytesInPlace = 64 << 10;
// Larger tensors get memory that can become the value of their key.
constexpr uint64_t kMaxTensorBytesInPlace = 64 << 10;

// Returns whether the entry's tensor may stay in the received bytes: its
// elements are all that the entry brings, as others are read where alignment
// matters.
bool MayStay(const PushEntry& entry, const PayloadRange& payload) {
  return payload.size_bytes > 0 &&
         payload.size_bytes <= kMaxTensorBytesInPlace && !entry.skip &&
         !entry.encoding;
}

// Gives tensors the received bytes that are their elements.
class ReceivedBytes {
 public:
  // The slices keep their memory when `bytes` are cleared.
  explicit ReceivedBytes(const grpc::ByteBuffer& bytes) {
    if (!bytes.Dump(&slices_).ok()) slices_.clear();
  }

  // Returns whether the bytes, none of which is before those of the last call,
  // follow one another in memory; if so, they are the elements of `tensor`.
  bool Give(const PayloadRange& range, Tensor& tensor) {
    while (range.offset >= end_) {
      if (!NextSlice()) return false;
    }
    if (range.offset + range.size_bytes > end_) return false;
    if (!buffer_ && !MakeBuffer()) return false;
    tensor.SetBuffer(buffer_, range.offset - begin_);
    return true;
  }

 private:
  // Returns false if there is none.
  bool NextSlice() {
    if (num_read_ == slices_.size()) return false;
    begin_ = end_;
    end_ += slices_[num_read_++].size();
    buffer_ = nullptr;
    return true;
  }
  // Returns false for a slice as small as those that may have their bytes in
  // themselves, where no other slice keeps them.
  bool MakeBuffer() {
    const grpc::Slice& slice = slices_[num_read_ - 1];
    if (slice.size() <= GRPC_SLICE_INLINED_SIZE) return false;
    buffer_ = MakeRefCounted<AdoptedBuffer>(slice.begin(), slice.size(),
                                            [slice = slice] {});
    return true;
  }

  std::vector<grpc::Slice> slices_;
  size_t num_read_ = 0;
  // Where the last one lies in the message.
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  RefPtr<Buffer> buffer_;  // of its bytes
};

template <typename Request>
std::vector<Tensor*> TensorsOf(Request& request) {
  std::vector<Tensor*> tensors;
  tensors.reserve(request.entries.size());
  for (auto& entry : request.entries) tensors.push_back(&entry.tensor);
  return tensors;
}

// Leaves those tensors of a push in the received bytes that may stay there,
// whose payloads become empty. Returns the others.
std::vector<Tensor*> ReadInPlace(const grpc::ByteBuffer& bytes,
                                 std::vector<PayloadRange>& payloads,
                                 PushRequest& request) {
  ReceivedBytes received(bytes);
  std::vector<Tensor*> others;
  for (size_t i = 0; i < payloads.size(); ++i) {
    PushEntry& entry = request.entries[i];
    if (MayStay(entry, payloads[i]) &&
        received.Give(payloads[i], entry.tensor)) {
      payloads[i].size_bytes = 0;
    } else {
      others.push_back(&entry.tensor);
    }
  }
  return others;
}

// Returns whether the message of a push is worth keeping: but for a sixth it is
// elements that may stay in it, which is what budgets count of it.
bool IsWorthKeeping(uint64_t message_bytes,
                    const std::vector<PayloadRange>& payloads,
                    const PushRequest& request) {
  if (message_bytes < kMinBytesInPlace) return false;
  uint64_t bytes = 0;
  for (size_t i = 0; i < payloads.size(); ++i) {
    if (!MayStay(request.entries[i], payloads[i])) continue;
    bytes += payloads[i].size_bytes;
  }
  return bytes >= message_bytes - message_bytes / 6;
}

// Gives tensors memory of their own.
absl::Status Allocate(absl::Span<Tensor* const> tensors) {
  for (Tensor* const tensor : tensors) {
    ASSIGN_OR_RETURN(*tensor,
                     Tensor::Allocate(tensor->dtype(), tensor->shape()));
  }
  return absl::OkStatus();
}

template <typename Entry>
absl::Status CheckBools(absl::Span<const Entry> entries) {
  for (const Entry& entry : entries) {
    const Tensor& tensor = entry.tensor;
    if (tensor.dtype() != DType::kBool) continue;
    const auto size = static_cast<size_t>(tensor.size_bytes());
    RETURN_IF_ERROR(CheckBoolElements(tensor.dtype(), {tensor.data(), size}));
  }
  return absl::OkStatus();
}

}  // namespace

template <typename Request>
absl::Status PayloadDecoder::ReceivePayloads(
    grpc::ByteBuffer* bytes, std::vector<PayloadRange>& payloads,
    Request& request, const CallContext& context) const {
  bool is_in_place = false;
  std::vector<Tensor*> staged;
  if constexpr (kIsStaged<Request> && std::is_base_of_v<PushRequest, Request>) {
    is_in_place = IsWorthKeeping(bytes->Length(), payloads, request) &&
                  calls_.staging().ReadsInPlace(request.name_space);
    if (is_in_place) staged = ReadInPlace(*bytes, payloads, request);
  }
  if (!is_in_place) staged = TensorsOf(request);
  if (!is_in_place || !staged.empty()) {
    if constexpr (kIsStaged<Request>) {
      RETURN_IF_ERROR(
          calls_.staging().Allocate(request.name_space, staged, context));
    } else {
      RETURN_IF_ERROR(Allocate(staged));
    }
    grpc::ProtoBufferReader reader(bytes);
    if (!ReadPayloads(&reader, payloads, TensorsOf(request))) {
      return absl::InternalError("payload: cannot be read again");
    }
  }
  using Entry = std::remove_cvref_t<decltype(request.entries[0])>;
  return CheckBools<Entry>(request.entries);
}

template <typename Request>
absl::StatusOr<CallDispatch::Admitted<VerbRequest<Request>>>
PayloadDecoder::Decode(grpc::ByteBuffer* bytes,
                       const CallContext& context) const {
  ASSIGN_OR_RETURN(Decoded<Request> decoded,
                   ReadAnyForm<Request>(bytes, limits_));
  ASSIGN_OR_RETURN(CallDispatch::Admitted<Request> admitted,
                   calls_.Admit(std::move(decoded.call), context.caller));
  using Entry = std::remove_cvref_t<decltype(admitted->entries[0])>;
  if constexpr (requires(Entry & entry) { entry.tensor; }) {
    RETURN_IF_ERROR(
        ReceivePayloads(bytes, decoded.payloads, *admitted, context));
  }
  bytes->Clear();
  return admitted;
}

#define TENSORKV_INSTANTIATE(Request)                                   \
  template absl::StatusOr<CallDispatch::Admitted<VerbRequest<Request>>> \
  PayloadDecoder::Decode<Request>(grpc::ByteBuffer * bytes,             \
                                  const CallContext& context) const
TENSORKV_INSTANTIATE(InitRequest);
TENSORKV_INSTANTIATE(SetStateRequest);
TENSORKV_INSTANTIATE(PushRequest);
TENSORKV_INSTANTIATE(PushRowsRequest);
TENSORKV_INSTANTIATE(PushPullRequest);
TENSORKV_INSTANTIATE(PullRequest);
TENSORKV_INSTANTIATE(PullRowsRequest);
TENSORKV_INSTANTIATE(GetStateRequest);
#undef TENSORKV_INSTANTIATE

}  // namespace tensorkv
