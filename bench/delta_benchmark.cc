// Measures deltas of bf16 weights after a step of an optimizer, beside XOR +
// zstd-3 of the whole: their bytes as a share of the dense ones, and GB/s of
// dense bytes on one thread. The weights are normal, of sigma 0.02, with an f32
// master; a step adds lr * normal, as Adam does when it is under way. Then what
// it takes to publish such weights at a server on loopback, by a ChangeWriter
// and as a whole: bytes that are sent as a share of the dense ones, and GB/s of
// dense bytes.
//
//   bazel build //bench:delta_benchmark
//   bazel-bin/bench/delta_benchmark --only share

#include <zstd.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "bench/harness/run.h"
#include "bench/harness/servers.h"
#include "client/change_writer.h"
#include "client/client.h"
#include "tensor/delta/delta_decoder.h"
#include "tensor/delta/delta_encoder.h"
#include "tensor/float_formats.h"

namespace tensorkv::bench {
namespace {

constexpr int64_t kNumElements = 16 << 20;

struct Step {
  TensorView from() const {
    return {DType::kBF16, kNumElements, before.data()};
  }
  TensorView to() const { return {DType::kBF16, kNumElements, after.data()}; }

  std::vector<uint16_t> before;
  std::vector<uint16_t> after;
  uint64_t digest = 0;
};

std::shared_ptr<const Step> StepOf(double learning_rate) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> weight(0, 0.02f);
  std::normal_distribution<float> change(0, static_cast<float>(learning_rate));
  auto step = std::make_shared<Step>();
  step->before.resize(kNumElements);
  step->after.resize(kNumElements);
  for (int64_t i = 0; i < kNumElements; ++i) {
    const float master = weight(random);
    step->before[i] = F32ToBF16(master);
    step->after[i] = F32ToBF16(master + change(random));
  }
  step->digest = DigestOf(step->to());
  return step;
}

using Encode = absl::StatusOr<std::string> (*)(const Step& step);
using Decode = absl::Status (*)(const Step& step, const std::string& delta,
                                std::vector<uint16_t>& to);

absl::StatusOr<std::string> EncodeOurs(const Step& step) {
  auto delta = EncodeDelta(step.from(), step.to(), DeltaEncodings::All());
  if (!delta) return absl::InternalError("the whole is smaller");
  return *std::move(delta);
}

absl::StatusOr<std::string> EncodeOneUlp(const Step& step) {
  auto delta = EncodeDelta(step.from(), step.to(), {DeltaEncoding::kOneUlp});
  if (!delta) return absl::InternalError("the whole is smaller");
  return *std::move(delta);
}

absl::Status DecodeOurs(const Step& step, const std::string& delta,
                        std::vector<uint16_t>& to) {
  static const uint64_t digest = DigestOf(step.to());
  absl::Status status = DecodeDelta(delta, digest, step.from(),
                                    {DType::kBF16, kNumElements, to.data()});
  // The digest of another step is computed all the same.
  return absl::IsDataLoss(status) ? absl::OkStatus() : status;
}

absl::StatusOr<std::string> EncodeXor(const Step& step) {
  std::vector<uint16_t> difference(kNumElements);
  for (int64_t i = 0; i < kNumElements; ++i) {
    difference[i] = step.before[i] ^ step.after[i];
  }
  const size_t bytes = step.to().size_bytes();
  std::string out(ZSTD_compressBound(bytes), '\0');
  const size_t size = ZSTD_compress(out.data(), out.size(), difference.data(),
                                    bytes, /*compressionLevel=*/3);
  if (ZSTD_isError(size)) return absl::InternalError("zstd");
  out.resize(size);
  return out;
}

absl::Status DecodeXor(const Step& step, const std::string& delta,
                       std::vector<uint16_t>& to) {
  const size_t size = ZSTD_decompress(to.data(), step.to().size_bytes(),
                                      delta.data(), delta.size());
  if (ZSTD_isError(size)) return absl::InternalError("zstd");
  for (int64_t i = 0; i < kNumElements; ++i) to[i] ^= step.before[i];
  return absl::OkStatus();
}

MakeLoad EncodeLoad(double learning_rate, Encode encode) {
  return [=]() -> absl::StatusOr<Load> {
    const auto step = StepOf(learning_rate);
    return Load{.call = [=] { return encode(*step).status(); },
                .bytes = static_cast<int64_t>(step->to().size_bytes())};
  };
}

MakeLoad DecodeLoad(double learning_rate, Encode encode, Decode decode) {
  return [=]() -> absl::StatusOr<Load> {
    const auto step = StepOf(learning_rate);
    ASSIGN_OR_RETURN(std::string delta, encode(*step));
    const auto to = std::make_shared<std::vector<uint16_t>>(kNumElements);
    return Load{.call = [=, delta = std::move(
                                delta)] { return decode(*step, delta, *to); },
                .bytes = static_cast<int64_t>(step->to().size_bytes())};
  };
}

Row ShareRow(const std::string& name, double learning_rate, Encode encode,
             double most) {
  return {.name = name,
          .figure = [=]() -> absl::StatusOr<double> {
            const auto step = StepOf(learning_rate);
            ASSIGN_OR_RETURN(const std::string delta, encode(*step));
            return static_cast<double>(delta.size()) / step->to().size_bytes();
          },
          .most = most};
}

// Pushes the weights before and after the step in turn, of which the server has
// the ones before.
class Publishing {
 public:
  static absl::StatusOr<std::shared_ptr<Publishing>> Begin(
      const std::string& address, double learning_rate) {
    ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                     Client::Connect({.target = address}));
    const auto step = StepOf(learning_rate);
    ASSIGN_OR_RETURN(Tensor before, CopyOf(step->before));
    ASSIGN_OR_RETURN(Tensor after, CopyOf(step->after));
    RETURN_IF_ERROR(client->Init("w", before, OnExisting::kReplace));
    return std::make_shared<Publishing>(std::move(client), std::move(before),
                                        std::move(after));
  }
  Publishing(std::unique_ptr<Client> client, Tensor before, Tensor after)
      : client_(std::move(client)),
        tensors_{std::move(before), std::move(after)} {}

  absl::Status Push(bool by_deltas) {
    next_ = 1 - next_;
    std::vector<PushEntry> entries = {{.key = "w", .tensor = tensors_[next_]}};
    return by_deltas ? writer_.Push(*client_, std::move(entries)).status()
                     : client_->Push(std::move(entries)).status();
  }
  int64_t size_bytes() const { return tensors_[0].size_bytes(); }
  uint64_t bytes_sent() const { return writer_.counts().bytes; }

 private:
  static absl::StatusOr<Tensor> CopyOf(const std::vector<uint16_t>& elements) {
    return Tensor::CopyOf(DType::kBF16, {kNumElements},
                          reinterpret_cast<const char*>(elements.data()));
  }

  const std::unique_ptr<Client> client_;
  const Tensor tensors_[2];
  ChangeWriter writer_;
  int next_ = 0;
};

MakeLoad PublishLoad(double learning_rate, bool by_deltas, Servers& servers) {
  return [=, &servers]() -> absl::StatusOr<Load> {
    ASSIGN_OR_RETURN(const ServerProcess server, servers.Get("tensorkv"));
    ASSIGN_OR_RETURN(const auto publishing,
                     Publishing::Begin(server.address, learning_rate));
    RETURN_IF_ERROR(publishing->Push(by_deltas));
    return Load{.call = [=] { return publishing->Push(by_deltas); },
                .bytes = publishing->size_bytes(),
                .server = server.pid};
  };
}

Row PublishShareRow(const std::string& name, double learning_rate, double most,
                    Servers& servers) {
  return {
      .name = name,
      .figure = [=, &servers]() -> absl::StatusOr<double> {
        ASSIGN_OR_RETURN(const ServerProcess server, servers.Get("tensorkv"));
        ASSIGN_OR_RETURN(const auto publishing,
                         Publishing::Begin(server.address, learning_rate));
        RETURN_IF_ERROR(publishing->Push(/*by_deltas=*/true));
        const uint64_t whole = publishing->bytes_sent();
        RETURN_IF_ERROR(publishing->Push(/*by_deltas=*/true));
        return static_cast<double>(publishing->bytes_sent() - whole) / whole;
      },
      .most = most};
}

int Main(int argc, char** argv) {
  CLI::App app("Measures deltas of weights.");
  RunFlags flags;
  AddRunFlags(&app, &flags);
  if (const auto exit_status = Parse(argc, argv, &app)) return *exit_status;
  Servers servers({.tensorkv_server = flags.tensorkv_server});
  std::vector<Row> rows;
  for (const auto& [rate, most] :
       {std::pair(1e-6, 0.025), std::pair(3e-6, 0.06), std::pair(1e-5, 0.15)}) {
    const std::string name = absl::StrCat("/lr", rate);
    rows.push_back(
        ShareRow(absl::StrCat("share", name), rate, EncodeOurs, most));
    rows.push_back(ShareRow(absl::StrCat("share_of_one_ulp", name), rate,
                            EncodeOneUlp, most));
    rows.push_back(
        ShareRow(absl::StrCat("share_of_xor", name), rate, EncodeXor, 1));
    rows.push_back({.name = absl::StrCat("encode", name),
                    .make_load = EncodeLoad(rate, EncodeOurs),
                    .references = {{.name = "xor+zstd-3",
                                    .make_load = EncodeLoad(rate, EncodeXor),
                                    .goal = 1}}});
    rows.push_back(
        {.name = absl::StrCat("decode", name),
         .make_load = DecodeLoad(rate, EncodeOurs, DecodeOurs),
         .references = {{.name = "xor+zstd-3",
                         .make_load = DecodeLoad(rate, EncodeXor, DecodeXor),
                         .goal = 1}}});
    rows.push_back(PublishShareRow(absl::StrCat("publish_share", name), rate,
                                   most, servers));
    rows.push_back(
        {.name = absl::StrCat("publish", name),
         .make_load = PublishLoad(rate, true, servers),
         .references = {{.name = "whole",
                         .make_load = PublishLoad(rate, false, servers)}}});
  }
  RunRows(rows, flags);
  return 0;
}

}  // namespace
}  // namespace tensorkv::bench

int main(int argc, char** argv) { return tensorkv::bench::Main(argc, argv); }
