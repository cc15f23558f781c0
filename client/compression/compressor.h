// Encodes what a client pushes, and remembers what that left out.

#ifndef TENSORKV_CLIENT_COMPRESSION_COMPRESSOR_H_
#define TENSORKV_CLIENT_COMPRESSION_COMPRESSOR_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/mutex.h"
#include "base/ref_counted.h"
#include "client/compression/compression.h"
#include "client/compression/encoders.h"
#include "client/send_cast.h"
#include "contract/requests.h"
#include "tensor/buffer_pool.h"

namespace tensorkv {

class Residuals;

// Encodes the pushes of one client to one namespace, and keeps for each key
// what error feedback and momentum need: the residual and the moment, f32.
//
// A contribution counts once, so the repeat of a step must bring the same
// bytes, and must not change the residual: what was encoded for the last
// kStepsRemembered steps of a key is kept, and is the answer for an entry of
// such a step that has the same dtype, shape and elements as before. Any other
// entry is a new one, and so is every push without a step. Who may repeat steps
// that lie further back keeps what was encoded, as WorkerClient does.
//
// Casts, blocks, 1-bit and 2-bit without error feedback and momentum keep
// nothing, and read the contribution once. Casts with it, of pushes without a
// step, may be made as they are sent: see Residuals.
//
// Rows are encoded without either, and only as casts and blocks: what those
// leave out is small, and remembering it would take a table as large as the
// key. Where a key has another encoding, or momentum, its rows stay as they
// are.
//
// What a push without a step leaves out is its key's once the push has been
// made, if its caller says so: see Residuals.
//
// Thread-safe; pushes of one key wait for each other.
class Compressor {
 public:
  static constexpr size_t kStepsRemembered = 4;

  // Is told of each entry how many bytes it had before it was encoded, and has
  // after.
  using Observer = std::function<void(
      Compression::Kind kind, int64_t bytes_before, int64_t bytes_after)>;

  // Payloads have memory from `payloads`.
  explicit Compressor(CompressionOptions options, Observer observer = {},
                      RefPtr<BufferPool> payloads =
                          MakeRefCounted<BufferPool>(/*max_idle_bytes=*/0));
  ~Compressor();

  const CompressionOptions& options() const { return options_; }

  // Returns the entries to push in place of `entries`. Integers, small tensors,
  // what is encoded already and keys without a rule stay as they are. What has
  // become a narrower float is not told from one that is yet to be encoded:
  // encode once. Errors: InvalidArgument for elements that are not finite,
  // naming the key; no key has changed then · InvalidArgument where the sum
  // with what a key's earlier pushes left out is too large for f32, and
  // ResourceExhausted; that key's residual and moment are zeros then.
  //
  // Where `left` is given, it gets what entries without a step change of their
  // keys. If it takes casts, and all that is to be encoded are casts of which
  // no step is to be remembered, entries stay as they are, and it gets what
  // they are to be cast to: nothing is read here. REQUIRES: `left` is new.
  absl::StatusOr<std::vector<PushEntry>> Compress(
      Step step, std::vector<PushEntry> entries, Residuals* left = nullptr);

 private:
  friend class Residuals;

  struct Key;
  // An entry that is to be encoded.
  struct Job;

  // Returns the entries that are to be encoded.
  std::vector<Job> JobsOf(Step step, absl::Span<PushEntry> entries);
  // Returns an entry encoded, or what was encoded for it before, and updates
  // its key's residual and moment.
  absl::StatusOr<EncodedTensor> Encoded(Step step, Job& job, Residuals* left);
  // Encodes an entry without a step; `left` gives back what it takes from the
  // key if the push is not made.
  absl::StatusOr<EncodedTensor> EncodedFor(Residuals& left, Job& job);
  // Returns whether all that is to be encoded are casts that may be made as the
  // entries are sent: with feedback only without a step, and if no entry has an
  // odd number of bytes, since stripes may meet within an element. Momentum and
  // rows rule it out.
  bool MayDeferCasts(Step step, absl::Span<const PushEntry> entries) const;
  // Gives `left` the casts that are to be made as the entries are sent.
  void DeferCasts(absl::Span<const PushEntry> entries, Residuals& left);
  void Observe(const Compression& compression, int64_t bytes_before,
               int64_t bytes_after) const;
  // Returns the compression of the entry's key; null for an entry that stays as
  // it is.
  const Compression* CompressionOf(const PushEntry& entry) const;
  // Returns what is kept of a key, which it makes first if need be.
  std::shared_ptr<Key> KeyOf(const std::string& name);
  // Checks that the entry can be encoded, or was encoded for that step already.
  // Encodes it at once if its key keeps nothing.
  absl::Status Check(Step step, Job& job);

  const CompressionOptions options_;
  const Observer observer_;
  const RefPtr<BufferPool> payloads_;
  Mutex mutex_;
  absl::flat_hash_map<std::string, std::shared_ptr<Key>> keys_
      ABSL_GUARDED_BY(mutex_);
};

// Residuals holds what one push without a step leaves out. The residuals of
// earlier pushes are taken from its keys until it ends, since one that the
// server refuses must change nothing. Pushes of these keys that begin meanwhile
// find none; the residuals of all of them are added up. Momentum is given back
// where no other push of the key was encoded meanwhile.
//
// It also has the casts of a push, of any step, that are made as the push is
// sent.
//
// Confined to one thread at a time, but for what CastFeedback allows.
class Residuals {
 public:
  // `takes_casts`: casts may be made as the push is sent.
  explicit Residuals(bool takes_casts);
  // Gives back what was taken, or zeros where a sum was too large, unless its
  // keys keep what the push has left out.
  ~Residuals();

  // Returns the casts for CallOptions::casts, which are valid for as long as
  // this object.
  absl::Span<const SendCast> casts() const { return casts_; }

  // Makes the keys keep what the push has left out, since it was made, or may
  // have been. A push of which some elements were never cast was not made, and
  // changes no key.
  // REQUIRES: nobody casts any more.
  void Keep() { is_kept_ = true; }

 private:
  friend class Compressor;

  // Taken holds what was taken from a key.
  struct Taken;

  const bool takes_casts_;
  std::vector<SendCast> casts_;
  std::vector<std::unique_ptr<Taken>> taken_;
  bool is_kept_ = false;
};

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_COMPRESSION_COMPRESSOR_H_
