#include "tensor/delta/delta_scratch.h"

#include <zstd.h>

#include "absl/strings/match.h"

namespace tensorkv {
namespace {

// Begins every frame that Compress writes. libzstd may decode others: frames of
// its old formats, by code that is not tested as well, and frames to skip.
constexpr absl::string_view kMagic = "\x28\xB5\x2F\xFD";

}  // namespace

DeltaScratch::DeltaScratch() = default;
DeltaScratch::~DeltaScratch() = default;

void DeltaScratch::FreeContexts::operator()(ZSTD_CCtx_s* context) const {
  ZSTD_freeCCtx(context);
}

void DeltaScratch::FreeContexts::operator()(ZSTD_DCtx_s* context) const {
  ZSTD_freeDCtx(context);
}

std::optional<size_t> DeltaScratch::Compress(absl::string_view bytes, int level,
                                             char* out, size_t max_bytes) {
  if (!compression_) compression_.reset(ZSTD_createCCtx());
  if (!compression_) return std::nullopt;
  const size_t size = ZSTD_compressCCtx(compression_.get(), out, max_bytes,
                                        bytes.data(), bytes.size(), level);
  if (ZSTD_isError(size)) return std::nullopt;
  return size;
}

std::optional<absl::string_view> DeltaScratch::Decompress(
    absl::string_view& frames, size_t max_bytes, std::string& memory) {
  if (!absl::StartsWith(frames, kMagic)) return std::nullopt;
  if (!decompression_) decompression_.reset(ZSTD_createDCtx());
  if (!decompression_) return std::nullopt;
  const size_t frame =
      ZSTD_findFrameCompressedSize(frames.data(), frames.size());
  if (ZSTD_isError(frame)) return std::nullopt;
  // What stands for an unknown size is above any bound.
  const auto size = ZSTD_getFrameContentSize(frames.data(), frames.size());
  if (size > max_bytes) return std::nullopt;
  GrowTo(size, memory);
  const size_t decompressed = ZSTD_decompressDCtx(
      decompression_.get(), memory.data(), size, frames.data(), frame);
  if (decompressed != size) return std::nullopt;
  frames.remove_prefix(frame);
  return absl::string_view(memory).substr(0, size);
}

}  // namespace tensorkv
