// Memory for encoding and decoding blocks of deltas.

#ifndef TENSORKV_TENSOR_DELTA_DELTA_SCRATCH_H_
#define TENSORKV_TENSOR_DELTA_DELTA_SCRATCH_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace tensorkv {

// The memory that a thread uses for one block after another: at most some MiB,
// which it keeps. Not thread-safe.
class DeltaScratch {
 public:
  DeltaScratch();
  ~DeltaScratch();

  // Returns a frame of zstd with `bytes` at `*out`, whose size is the bound of
  // the frame's. Nothing if it does not fit, or there is no memory.
  std::optional<size_t> Compress(absl::string_view bytes, int level, char* out,
                                 size_t max_bytes);
  // Takes the frame off the front of `frames` and returns what it has, of at
  // most `max_bytes`, in `memory`. Nothing if there is no such frame.
  std::optional<absl::string_view> Decompress(absl::string_view& frames,
                                              size_t max_bytes,
                                              std::string& memory);

  // Hold the code of one ulp.
  std::string codes;
  std::string magnitudes;
  // Holds other bytes that are encoded or decoded.
  std::string bytes;
  std::string compressed;

 private:
  struct FreeContexts {
    void operator()(ZSTD_CCtx_s* context) const;
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, FreeContexts> compression_;
  std::unique_ptr<ZSTD_DCtx_s, FreeContexts> decompression_;
};

// Has `memory` have so many bytes at least, which may be anything.
inline void GrowTo(size_t bytes, std::string& memory) {
  if (memory.size() < bytes) memory.resize(bytes);
}

}  // namespace tensorkv

#endif  // TENSORKV_TENSOR_DELTA_DELTA_SCRATCH_H_
