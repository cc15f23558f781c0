// How a contribution is encoded, as lists of the fields that say so.
// tensor.proto (Encoding) explains them.

#ifndef TENSORKV_CONTRACT_PACKING_FIELDS_H_
#define TENSORKV_CONTRACT_PACKING_FIELDS_H_

#include "absl/status/status.h"
#include "contract/encoding.h"
#include "contract/field_kinds.h"
#include "contract/reason.h"
#include "tensorkv/v1/tensor.pb.h"

namespace tensorkv::wire {

// One kind of packing, whose number is that of its field.
template <PackingKind kKind, typename... Field>
struct Kind {
  static constexpr Tag kTag = RunTag(static_cast<int>(kKind));
  static bool Accept(MessageReader& in, Packing& packing) {
    if (!in.Accept(kTag)) return false;
    packing.kind = kKind;
    in.ReadMessage([&] { Fields<Field...>::Read(in, packing); });
    return true;
  }
  static void Write(const Packing& packing, WireWriter& out) {
    if (packing.kind != kKind) return;
    out.Message(kTag, [&] { Fields<Field...>::Write(packing, out); });
  }
};

template <typename... EachKind>
struct Kinds {
  static void Read(MessageReader& in, Packing& packing) {
    if ((EachKind::Accept(in, packing) || ...)) return;
    in.Fail(WithReason(
        absl::UnimplementedError("encoding: none that this server knows"),
        Reason::kEncodingUnknown));
  }
  static void Write(const Packing& packing, WireWriter& out) {
    (EachKind::Write(packing, out), ...);
  }
};

using PackingFields = Kinds<
    Kind<PackingKind::kTwoBit,
         Fixed<v1::TwoBitEncoding::kThresholdFieldNumber, &Packing::scale>>,
    Kind<PackingKind::kOneBit,
         Fixed<v1::OneBitEncoding::kScaleFieldNumber, &Packing::scale>>,
    Kind<PackingKind::kTopK,
         Number<v1::TopKEncoding::kCountFieldNumber, &Packing::count>>,
    Kind<PackingKind::kRandomK,
         Number<v1::RandomKEncoding::kBlockSizeFieldNumber,
                &Packing::block_size>,
         Fixed<v1::RandomKEncoding::kSeedFieldNumber, &Packing::seed>>,
    Kind<PackingKind::kDithering,
         Number<v1::DitheringEncoding::kBitsFieldNumber, &Packing::bits>,
         Fixed<v1::DitheringEncoding::kNormFieldNumber, &Packing::scale>,
         Number<v1::DitheringEncoding::kNaturalFieldNumber,
                &Packing::is_natural>>,
    Kind<
        PackingKind::kBlocks,
        Choice<v1::BlockEncoding::kElementFieldNumber, &Packing::element_dtype>,
        Number<v1::BlockEncoding::kBlockSizeFieldNumber,
               &Packing::block_size>>>;

}  // namespace tensorkv::wire

#endif  // TENSORKV_CONTRACT_PACKING_FIELDS_H_
