#include "tests/client/fake_stream_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/stripe_range.h"
#include "gtest/gtest.h"
#include "tests/contract/generated_codec.h"

namespace tensorkv::testing {
namespace {

Stripe FromWire(const v1::Stripe& stripe) {
  return {.index = stripe.index(), .count = std::max(stripe.count(), 1u)};
}

v1::PullChunk ChunkOf(const PartRange& part, const Tensor& tensor) {
  v1::PullChunk chunk;
  chunk.mutable_part()->set_entry(part.entry);
  chunk.mutable_part()->set_offset(part.offset);
  chunk.mutable_part()->set_data(tensor.data() + part.offset, part.size_bytes);
  return chunk;
}

template <typename Chunk, typename Reader>
void ReadParts(Reader* reader, std::vector<v1::Part>* parts) {
  Chunk chunk;
  while (reader->Read(&chunk)) {
    EXPECT_TRUE(chunk.has_part());
    parts->push_back(std::move(*chunk.mutable_part()));
  }
}

}  // namespace

std::vector<FakeStreamService::Stream> FakeStreamService::streams() {
  MutexLock lock(&mutex_);
  std::vector<Stream> streams = streams_;
  std::stable_sort(streams.begin(), streams.end(),
                   [](const Stream& a, const Stream& b) {
                     return a.stripe.index() < b.stripe.index();
                   });
  return streams;
}

template <typename Request, typename Response>
grpc::Status FakeStreamService::Read(const char* rpc,
                                     const grpc::ServerContext& context,
                                     const Request& request,
                                     Response* response) {
  Record(rpc, context);
  ticket_from_bytes = request.ticket_from_bytes();
  if (!status.ok()) return status;
  PullReply reply = {values};
  const uint64_t bytes = *TotalBytes(TensorSizes(values));
  if (ticket_from_bytes > 0 &&
      (bytes >= ticket_from_bytes || bytes >= request.max_reply_bytes())) {
    reply.ticket = {.id = "ticket", .size_bytes = bytes};
  }
  ToProto(reply, response);
  return grpc::Status::OK;
}

grpc::Status FakeStreamService::InitStream(
    grpc::ServerContext* context, grpc::ServerReader<v1::InitChunk>* reader,
    v1::InitResponse* response) {
  Record("InitStream", *context);
  Stream stream = {.rpc = "InitStream", .peer = context->peer()};
  v1::InitChunk chunk;
  reader->Read(&chunk);
  stream.init = chunk.manifest();
  stream.stripe = stream.init.stripe();
  grpc::Status begun = after_manifest(stream.stripe);
  if (!begun.ok()) return Fail(stream.stripe, begun);
  ReadParts<v1::InitChunk>(reader, &stream.parts);
  *response = init_response;
  return Finish(std::move(stream));
}

grpc::Status FakeStreamService::PushStream(
    grpc::ServerContext* context, grpc::ServerReader<v1::PushChunk>* reader,
    v1::PushResponse* response) {
  Record("PushStream", *context);
  Stream stream = {.rpc = "PushStream", .peer = context->peer()};
  v1::PushChunk chunk;
  reader->Read(&chunk);
  stream.push = chunk.manifest();
  stream.stripe = stream.push.stripe();
  grpc::Status begun = after_manifest(stream.stripe);
  if (!begun.ok()) return Fail(stream.stripe, begun);
  ReadParts<v1::PushChunk>(reader, &stream.parts);
  *response = push_response;
  return Finish(std::move(stream));
}

grpc::Status FakeStreamService::PullStream(
    grpc::ServerContext* context, const v1::PullStreamRequest* request,
    grpc::ServerWriter<v1::PullChunk>* writer) {
  Record("PullStream", *context);
  Stream stream = {.rpc = "PullStream",
                   .peer = context->peer(),
                   .stripe = request->stripe(),
                   .pull = *request};
  grpc::Status begun = after_manifest(stream.stripe);
  if (!begun.ok()) return begun;
  {
    MutexLock lock(&mutex_);
    streams_.push_back(std::move(stream));
  }
  std::vector<v1::PullChunk> chunks = Chunks(
      request->stripe(),
      request->max_part_bytes() > 0 ? request->max_part_bytes() : part_bytes);
  chunks.erase(chunks.begin());  // the manifest
  Send(request->stripe(), std::move(chunks), writer);
  return this->status;
}

grpc::Status FakeStreamService::PushPullStream(
    grpc::ServerContext* context,
    grpc::ServerReaderWriter<v1::PullChunk, v1::PushChunk>* call) {
  Record("PushPullStream", *context);
  Stream stream = {.rpc = "PushPullStream", .peer = context->peer()};
  v1::PushChunk chunk;
  call->Read(&chunk);
  stream.push = chunk.manifest();
  stream.stripe = stream.push.stripe();
  const v1::Stripe stripe = stream.stripe;
  grpc::Status begun = after_manifest(stripe);
  if (!begun.ok()) return Fail(stream.stripe, begun);
  ReadParts<v1::PushChunk>(call, &stream.parts);
  const grpc::Status status = Finish(std::move(stream));
  if (!status.ok()) return status;
  Send(stripe, Chunks(stripe, part_bytes), call);
  return this->status;
}

grpc::Status FakeStreamService::Finish(Stream stream) {
  const v1::Stripe stripe = stream.stripe;
  after_upload(stripe);
  {
    MutexLock lock(&mutex_);
    streams_.push_back(std::move(stream));
  }
  const grpc::Status joined = Join(stripe);
  return joined.ok() ? status : joined;
}

void FakeStreamService::Stop() {
  {
    MutexLock lock(&mutex_);
    is_stopping_ = true;
    changed_.SignalAll();
  }
  FakeService::Stop();
}

grpc::Status FakeStreamService::Join(const v1::Stripe& stripe) {
  if (stripe.count() <= 1) return grpc::Status::OK;
  MutexLock lock(&mutex_);
  Call& call = calls_[stripe.group()];
  ++call.num_here;
  changed_.SignalAll();
  while (call.num_here < stripe.count() && !call.has_failed && !is_stopping_) {
    changed_.Wait(&mutex_);
  }
  if (call.num_here >= stripe.count()) return grpc::Status::OK;
  return grpc::Status(grpc::StatusCode::ABORTED, "another stripe failed");
}

grpc::Status FakeStreamService::Fail(const v1::Stripe& stripe,
                                     const grpc::Status& status) {
  MutexLock lock(&mutex_);
  calls_[stripe.group()].has_failed = true;
  changed_.SignalAll();
  return status;
}

std::vector<v1::PullChunk> FakeStreamService::Chunks(const v1::Stripe& stripe,
                                                     uint64_t max_part_bytes) {
  std::vector<v1::PullChunk> chunks(1);
  ToProto(PullReply{values}, chunks[0].mutable_manifest());
  const std::vector<uint64_t> sizes = TensorSizes(values);
  PartCursor cursor(sizes, *StripeRange(*TotalBytes(sizes), FromWire(stripe)));
  while (const auto part = cursor.Next(max_part_bytes)) {
    chunks.push_back(ChunkOf(*part, values[part->entry].tensor));
  }
  return chunks;
}

template <typename Writer>
void FakeStreamService::Send(const v1::Stripe& stripe,
                             std::vector<v1::PullChunk> chunks,
                             Writer* writer) {
  edit(stripe, &chunks);
  for (const v1::PullChunk& chunk : chunks) {
    if (!writer->Write(chunk)) return;
  }
}

std::vector<std::string> Payloads(
    const std::vector<FakeStreamService::Stream>& streams,
    const std::vector<uint64_t>& sizes, uint64_t part_bytes) {
  std::vector<std::string> payloads(sizes.size());
  for (const FakeStreamService::Stream& stream : streams) {
    PartCursor cursor(
        sizes, *StripeRange(*TotalBytes(sizes), FromWire(stream.stripe)));
    for (const v1::Part& part : stream.parts) {
      EXPECT_LE(part.data().size(), part_bytes);
      const PartRange range = {part.entry(), part.offset(), part.data().size()};
      EXPECT_EQ(cursor.Accept(range), absl::OkStatus());
      if (part.entry() < sizes.size()) payloads[part.entry()] += part.data();
    }
    EXPECT_EQ(cursor.CheckComplete(), absl::OkStatus());
  }
  return payloads;
}

}  // namespace tensorkv::testing
