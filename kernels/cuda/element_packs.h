// Runs of elements between memory and registers, for host and device.

#ifndef TENSORKV_KERNELS_CUDA_ELEMENT_PACKS_H_
#define TENSORKV_KERNELS_CUDA_ELEMENT_PACKS_H_

#include <stdint.h>

#include <bit>
#include <type_traits>

#include "kernels/cuda/update_work.h"
#include "kernels/ops/arithmetic.h"
#include "kernels/ops/host_device.h"
#include "tensor/float_formats.h"

namespace tensorkv {

// The number of elements that one thread has in registers: 16 bytes of T, so
// that its accesses are whole and a warp's touch whole sectors.
template <typename T>
inline constexpr int kPackElements = 16 / sizeof(T);
template <>
inline constexpr int kPackElements<double> = 4;  // 4 bytes of f8

// The elements from `first` on of an array with `count` left, of which a pack
// takes what it can.
struct PackRange {
  uint64_t first;
  uint64_t count;
};

// The bytes of `num_words` aligned words, in one access per 16 bytes. Words and
// not elements: compilers take structs of elements apart again.
template <int num_words>
struct PackWords {
  static constexpr int kAccessBytes = num_words < 4 ? num_words * 4 : 16;
  static_assert(num_words * 4 % kAccessBytes == 0);

  uint32_t words[num_words];
};

template <int num_words>
HOST_DEVICE bool IsAlignedFor(const PackWords<num_words>&, const void* data) {
  constexpr int kAccessBytes = PackWords<num_words>::kAccessBytes;
  return reinterpret_cast<uintptr_t>(data) % kAccessBytes == 0;
}

// REQUIRES: aligned memory.
template <int num_words>
HOST_DEVICE void LoadWords(const void* data, PackWords<num_words>& out) {
#if defined(__CUDA_ARCH__)
  for (int i = 0; i < num_words; i += 4) {
    if constexpr (num_words == 1) {
      out.words[0] = *static_cast<const uint32_t*>(data);
    } else if constexpr (num_words == 2) {
      const uint2 access = *static_cast<const uint2*>(data);
      out.words[0] = access.x;
      out.words[1] = access.y;
    } else {
      const uint4 access = static_cast<const uint4*>(data)[i / 4];
      out.words[i] = access.x;
      out.words[i + 1] = access.y;
      out.words[i + 2] = access.z;
      out.words[i + 3] = access.w;
    }
  }
#else
  if (!IsAlignedFor(out, data)) __builtin_trap();  // as a GPU would
  __builtin_memcpy(out.words, data, sizeof(out.words));
#endif
}

// Stores by the intrinsic: nvcc splits an assignment into scalar stores.
// REQUIRES: aligned memory.
template <int num_words>
HOST_DEVICE void StoreWords(const PackWords<num_words>& in, void* data) {
#if defined(__CUDA_ARCH__)
  const uint32_t* const words = in.words;
  for (int i = 0; i < num_words; i += 4) {
    if constexpr (num_words == 1) {
      *static_cast<uint32_t*>(data) = words[0];
    } else if constexpr (num_words == 2) {
      __stwb(static_cast<uint2*>(data), make_uint2(words[0], words[1]));
    } else {
      __stwb(static_cast<uint4*>(data) + i / 4,
             make_uint4(words[i], words[i + 1], words[i + 2], words[i + 3]));
    }
  }
#else
  if (!IsAlignedFor(in, data)) __builtin_trap();
  __builtin_memcpy(data, in.words, sizeof(in.words));
#endif
}

// The unsigned integer type as large as Bits.
template <typename Bits>
using UnsignedOf = std::conditional_t<
    sizeof(Bits) == 1, uint8_t,
    std::conditional_t<
        sizeof(Bits) == 2, uint16_t,
        std::conditional_t<sizeof(Bits) == 4, uint32_t, uint64_t>>>;

template <typename Bits, int size>
using PackOf = PackWords<sizeof(Bits) * size / 4>;

// Returns element `i` of a pack, little-endian.
template <typename Bits, int num_words>
HOST_DEVICE Bits ElementOf(const PackWords<num_words>& pack, int i) {
  if constexpr (sizeof(Bits) == 8) {
    const uint64_t high = pack.words[2 * i + 1];
    return std::bit_cast<Bits>(high << 32 | pack.words[2 * i]);
  } else {
    constexpr int kPerWord = 4 / sizeof(Bits);
    const uint32_t shifted =
        pack.words[i / kPerWord] >> (i % kPerWord * 8 * sizeof(Bits));
    return std::bit_cast<Bits>(static_cast<UnsignedOf<Bits>>(shifted));
  }
}

// Sets element `i` of a pack. REQUIRES: the bits of the element are zero.
template <typename Bits, int num_words>
HOST_DEVICE void AddElement(Bits element, int i, PackWords<num_words>& pack) {
  const auto bits = std::bit_cast<UnsignedOf<Bits>>(element);
  if constexpr (sizeof(Bits) == 8) {
    pack.words[2 * i] = static_cast<uint32_t>(bits);
    pack.words[2 * i + 1] = static_cast<uint32_t>(bits >> 32);
  } else {
    constexpr int kPerWord = 4 / sizeof(Bits);
    pack.words[i / kPerWord] |= uint32_t{bits}
                                << (i % kPerWord * 8 * sizeof(Bits));
  }
}

// How one element of a dtype becomes a T and back.
template <typename T, typename Stored = T>
struct NativeElement {
  using Bits = Stored;
  static HOST_DEVICE T Widen(Stored value) { return static_cast<T>(value); }
  static HOST_DEVICE Stored Narrow(T value) {
    return static_cast<Stored>(value);
  }
};

template <typename T, typename BitsType, float (*widen)(BitsType),
          BitsType (*narrow)(float)>
struct SmallFloat {
  using Bits = BitsType;
  static HOST_DEVICE T Widen(Bits bits) { return static_cast<T>(widen(bits)); }
  static HOST_DEVICE Bits Narrow(T value) {
    return narrow(static_cast<float>(value));
  }
};

// Tells the compiler that `data` is memory of a GPU, or pinned memory of the
// host, and none of a block or thread, which it must assume of pointers that it
// finds in tables: such accesses take longer.
HOST_DEVICE void AssumeGlobal(const void* data) {
#if defined(__CUDA_ARCH__)
  __builtin_assume(__isGlobal(data));
#endif
}

// Elements past the range's end are zero.
template <typename Format, typename T, int size>
HOST_DEVICE void LoadPack(const void* data, PackRange range, T (&out)[size]) {
  using Bits = typename Format::Bits;
  const Bits* const in = static_cast<const Bits*>(data) + range.first;
  AssumeGlobal(in);
  PackOf<Bits, size> pack;
  if (range.count >= size && IsAlignedFor(pack, in)) {
    LoadWords(in, pack);
    for (int i = 0; i < size; ++i) {
      out[i] = Format::Widen(ElementOf<Bits>(pack, i));
    }
    return;
  }
  for (int i = 0; i < size; ++i) {
    out[i] = uint64_t(i) < range.count ? Format::Widen(in[i]) : T();
  }
}

template <typename Format, typename T, int size>
HOST_DEVICE void StorePack(const T (&in)[size], PackRange range, void* data) {
  using Bits = typename Format::Bits;
  Bits* const out = static_cast<Bits*>(data) + range.first;
  AssumeGlobal(out);
  PackOf<Bits, size> pack = {};
  if (range.count >= size && IsAlignedFor(pack, out)) {
    for (int i = 0; i < size; ++i) AddElement(Format::Narrow(in[i]), i, pack);
    StoreWords(pack, out);
    return;
  }
  for (int i = 0; i < size; ++i) {
    if (uint64_t(i) < range.count) out[i] = Format::Narrow(in[i]);
  }
}

// Calls `visit` with a NativeElement or SmallFloat that converts elements of
// `type` to T and back. All threads of a block take the same branch, as all
// work on one tensor. Where T is no float, `type` must be T's own.
template <typename T, typename Visitor>
HOST_DEVICE void VisitFormat(ElementType type, Visitor visit) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (type) {
      case ElementType::kF32:
        return visit(NativeElement<T, float>());
      case ElementType::kF64:
        return visit(NativeElement<T, double>());
      case ElementType::kF16:
        return visit(SmallFloat<T, uint16_t, F16ToF32, F32ToF16>());
      case ElementType::kBF16:
        return visit(SmallFloat<T, uint16_t, BF16ToF32, F32ToBF16>());
      case ElementType::kF8E4M3FN:
        return visit(SmallFloat<T, uint8_t, F8E4M3ToF32, F32ToF8E4M3>());
      case ElementType::kF8E5M2:
        return visit(SmallFloat<T, uint8_t, F8E5M2ToF32, F32ToF8E5M2>());
      default:
        return;
    }
  } else {
    visit(NativeElement<T>());
  }
}

template <typename T, int size>
HOST_DEVICE void Load(SourceArray source, PackRange range, T (&out)[size]) {
  VisitFormat<T>(source.type, [&](auto format) {
    LoadPack<decltype(format)>(source.data, range, out);
  });
}

template <typename T, int size>
HOST_DEVICE void Store(const T (&in)[size], PackRange range, ElementType type,
                       void* data) {
  VisitFormat<T>(
      type, [&](auto format) { StorePack<decltype(format)>(in, range, data); });
}

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_CUDA_ELEMENT_PACKS_H_
