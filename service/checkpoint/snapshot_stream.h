// A snapshot as a stream of bytes, as servers send it to each other.

#ifndef TENSORKV_SERVICE_CHECKPOINT_SNAPSHOT_STREAM_H_
#define TENSORKV_SERVICE_CHECKPOINT_SNAPSHOT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "base/ref_counted.h"
#include "service/store/snapshot.h"
#include "tensor/tensor.h"
#include "tensorkv/v1/manifest.pb.h"

namespace tensorkv {

// Encodes a snapshot as v1::SendMovePartRequest says. Used by one thread.
class SnapshotStreamWriter final : public SnapshotSink {
 public:
  // The size of the pieces of the stream; those of Finish may be shorter.
  static constexpr size_t kPieceBytes = 1 << 20;
  // Sends the next piece of the stream; its errors end the snapshot.
  using Send = std::function<absl::Status(std::string piece)>;

  explicit SnapshotStreamWriter(Send send) : send_(std::move(send)) {}

  absl::Status Begin(NamespaceSnapshot name_space) override;
  absl::Status Add(KeySnapshot key) override;
  absl::Status End() override { return Flush(); }
  void Paused(absl::Duration) override {}

  // Sends what is left of the stream, to which more may be added. REQUIRES: all
  // namespaces have ended.
  absl::Status Finish();

  uint64_t tensor_bytes() const { return tensor_bytes_; }

 private:
  void AddTensor(const std::string& state, Tensor tensor, v1::SavedKey* saved);
  // Sends the record of the keys that were collected.
  absl::Status Flush();
  absl::Status SendRecord(const v1::NamespaceManifest& manifest,
                          const std::vector<Tensor>& tensors,
                          uint64_t tensor_bytes);
  // Adds bytes to the present piece, and sends each piece that is full.
  absl::Status Append(absl::string_view bytes);

  const Send send_;
  std::string piece_;
  v1::NamespaceManifest keys_;
  RefPtr<const Contributors> last_contributors_;
  std::vector<Tensor> tensors_;
  uint64_t record_bytes_ = 0;
  uint64_t tensor_bytes_ = 0;
};

// Decodes the stream of a SnapshotStreamWriter, and gives a Restoration what it
// has; the caller commits that. Used by one thread. After an error it must not
// be used any more.
class SnapshotStreamReader {
 public:
  // `to` outlives it.
  explicit SnapshotStreamReader(Restoration* to) : to_(*to) {}

  // Decodes the next bytes of the stream, however many. Errors: DataLoss ·
  // those of Restoration.
  absl::Status Read(absl::string_view bytes);
  // Checks that the stream is complete. Errors: DataLoss: it is cut off.
  absl::Status Finish() const;

 private:
  enum class Part { kSizes, kManifest, kTensors };

  // Ends the present part, which is complete.
  absl::Status EndPart();
  // EndSizes and EndManifest decode what their part has, and choose the next
  // part.
  absl::Status EndSizes();
  absl::Status EndManifest();
  // Makes the keys of the manifest, whose tensors are yet to come.
  absl::Status MakeKeys();
  // Allocates the tensor, adds it to the key, and has its bytes read next.
  absl::Status MakeTensor(const v1::SavedTensor& saved, KeySnapshot& key,
                          uint64_t& offset);
  // Gives the record's keys to the Restoration.
  absl::Status EndRecord();
  // Returns where the next bytes go, and how many at most.
  absl::Span<char> NextSpan();

  Restoration& to_;
  Part part_ = Part::kSizes;
  // Sizes, or what has come of the manifest; how much of them, or of the
  // tensor, is there.
  std::string bytes_ = std::string(2 * sizeof(uint64_t), '\0');
  size_t num_read_ = 0;
  uint64_t manifest_bytes_ = 0;
  uint64_t tensor_bytes_ = 0;
  v1::NamespaceManifest manifest_;
  std::vector<KeySnapshot> keys_;
  // The tensors of `keys_` in their order, and which of them is next.
  std::vector<absl::Span<char>> spans_;
  std::vector<uint64_t> digests_;
  size_t next_span_ = 0;
};

}  // namespace tensorkv

#endif  // TENSORKV_SERVICE_CHECKPOINT_SNAPSHOT_STREAM_H_
