// What the hand-written codec costs beside the generated code: messages of
// many small tensors, and of one large. Each run times both in turns.
//
//   bazel build //bench:codec_benchmark
//   bazel-bin/bench/codec_benchmark --benchmark_repetitions=9
//
// ns/entry is the hand-written codec's CPU time, generated_ns/entry the
// other's, and speedup their ratio. Chunks are as large as gRPC's slices.
// Reading ends with the elements in the memory of tensors. The hand-written
// codec is given that memory, and getting it is not timed; the generated code
// allocates it by itself.

#include <benchmark/benchmark.h>
#include <time.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/message_writer.h"
#include "contract/payload_reader.h"
#include "contract/proto_codec.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"

namespace tensorkv {
namespace {

using ::google::protobuf::io::ArrayInputStream;

// What a TCP connection of gRPC reads at once.
constexpr int kChunkBytes = 64 * 1024;
constexpr uint32_t kMaxEntries = 100'000;

PushRequest MakeRequest(int64_t num_entries, int64_t entry_bytes) {
  PushRequest request;
  request.name_space = "default";
  request.call_id = CallId{"0123456789abcdef", 1};
  for (int64_t i = 0; i < num_entries; ++i) {
    request.entries.push_back(
        {.key = absl::StrCat("layer", i, ".w"),
         .tensor = Tensor::Filled(DType::kU8, {entry_bytes}, 7).value()});
  }
  return request;
}

std::string Serialize(const PushRequest& request) {
  v1::PushRequest proto;
  ToProto(request, &proto);
  return proto.SerializeAsString();
}

// Tensors of one request, one after another in one buffer.
class Destination {
 public:
  explicit Destination(size_t size_bytes)
      : buffer_(HostBuffer::Allocate(size_bytes).value()) {}

  // Places every tensor of `request` in the buffer.
  std::vector<Tensor*> Place(PushRequest& request) {
    std::vector<Tensor*> tensors;
    tensors.reserve(request.entries.size());
    size_t offset = 0;
    for (PushEntry& entry : request.entries) {
      Tensor& tensor = entry.tensor;
      tensor = Tensor::Within(tensor.dtype(), tensor.shape(), buffer_, offset)
                   .value();
      offset += tensor.size_bytes();
      tensors.push_back(&tensor);
    }
    return tensors;
  }

 private:
  const RefPtr<Buffer> buffer_;
};

// Counts this thread alone, whatever other processes do.
double CpuSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * time.tv_nsec;
}

// The seconds it took, below zero if it failed.
template <typename Body>
double Seconds(Body body) {
  const double start = CpuSeconds();
  const bool ok = body();
  return ok ? CpuSeconds() - start : -1;
}

double ReadByHand(const std::string& bytes, Destination& destination) {
  const int size = static_cast<int>(bytes.size());
  ArrayInputStream metadata(bytes.data(), size, kChunkBytes);
  ArrayInputStream payloads(bytes.data(), size, kChunkBytes);
  std::optional<DecodedPush> decoded;
  const double read = Seconds([&] {
    decoded = ReadPush(&metadata, bytes.size(), kMaxEntries);
    return decoded.has_value();
  });
  if (!decoded) return read;
  const std::vector<Tensor*> tensors = destination.Place(decoded->request);
  const double copied = Seconds(
      [&] { return ReadPayloads(&payloads, decoded->payloads, tensors); });
  return read + copied;
}

bool ReadGenerated(const std::string& bytes) {
  ArrayInputStream in(bytes.data(), static_cast<int>(bytes.size()),
                      kChunkBytes);
  v1::PushRequest proto;
  if (!proto.ParseFromZeroCopyStream(&in)) return false;
  return FromProto(std::move(proto)).ok();
}

// Times `by_hand` and `generated`, which return seconds, in turns.
template <typename ByHand, typename Generated>
void Compare(benchmark::State& state, ByHand by_hand, Generated generated) {
  double by_hand_seconds = 0;
  double generated_seconds = 0;
  for (auto _ : state) {
    generated_seconds += generated();
    const double seconds = by_hand();
    by_hand_seconds += seconds;
    state.SetIterationTime(seconds);
  }
  const double entries =
      static_cast<double>(state.iterations()) * state.range(0);
  state.counters["ns/entry"] = by_hand_seconds * 1e9 / entries;
  state.counters["generated_ns/entry"] = generated_seconds * 1e9 / entries;
  state.counters["speedup"] = generated_seconds / by_hand_seconds;
}

void Read(benchmark::State& state) {
  const std::string bytes =
      Serialize(MakeRequest(state.range(0), state.range(1)));
  Destination destination(state.range(0) * state.range(1));
  Compare(
      state, [&] { return ReadByHand(bytes, destination); },
      [&] { return Seconds([&] { return ReadGenerated(bytes); }); });
}

void Write(benchmark::State& state) {
  const PushRequest request = MakeRequest(state.range(0), state.range(1));
  Compare(
      state,
      [&] {
        return Seconds([&] { return EncodePush(request).size_bytes() > 0; });
      },
      [&] { return Seconds([&] { return !Serialize(request).empty(); }); });
}

void Sizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({10'000, 256})->Args({1, 1 << 20})->UseManualTime();
}
BENCHMARK(Read)->Apply(Sizes);
BENCHMARK(Write)->Apply(Sizes);

}  // namespace
}  // namespace tensorkv

BENCHMARK_MAIN();
