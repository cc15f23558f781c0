#include "client/internal/transfer/stripe_stream.h"

#include <utility>

#include "grpcpp/impl/codegen/rpc_method.h"

namespace tensorkv {

StripeStream::StripeStream(std::shared_ptr<grpc::Channel> channel,
                           ServerIncarnation* server, const char* method,
                           const CallDeadline& deadline)
    : channel_(std::move(channel)),
      server_(*server),
      method_(method),
      deadline_(deadline),
      listening_(deadline.canceller(), [this] { Cancel(); }) {
  deadline.ApplyTo(context_);
  server_.ApplyTo(context_);
  // The first message takes it along.
  context_.set_initial_metadata_corked(true);
}

StripeStream::~StripeStream() {
  // Whoever has not asked how the stream ends has no use for it.
  if (stream_ != nullptr) Finish(absl::CancelledError()).IgnoreError();
}

void StripeStream::Cancel() {
  // It counts for the RPC, too, if that has not begun.
  context_.TryCancel();
}

void StripeStream::Begin() {
  // On the wire, every kind of call is a special case of this one.
  const grpc::internal::RpcMethod method(
      method_, grpc::internal::RpcMethod::BIDI_STREAMING);
  using Factory = grpc::internal::ClientReaderWriterFactory<grpc::ByteBuffer,
                                                            grpc::ByteBuffer>;
  stream_.reset(Factory::Create(channel_.get(), method, &context_));
}

bool StripeStream::Write(const grpc::ByteBuffer& message, bool is_last) {
  if (stream_ == nullptr) Begin();
  grpc::WriteOptions options;
  // Without the hint, each write would wait until the one before has left.
  options.set_buffer_hint();
  if (is_last) options.set_last_message();
  has_failed_write_ = !stream_->Write(message, options);
  return !has_failed_write_;
}

bool StripeStream::Read(grpc::ByteBuffer* message) {
  has_read_all_ = !stream_->Read(message);
  return !has_read_all_;
}

absl::Status StripeStream::Finish(const absl::Status& outcome) {
  if (stream_ == nullptr) return outcome;
  const bool server_has_ended_it = has_failed_write_ || has_read_all_;
  if (!server_has_ended_it) Cancel();
  // The status comes only after all messages that have arrived.
  grpc::ByteBuffer ignored;
  while (!has_read_all_) Read(&ignored);
  const grpc::Status status = stream_->Finish();
  stream_ = nullptr;
  if (status.ok()) server_.LearnFrom(context_);
  if (!server_has_ended_it) return outcome;
  // The last messages, or only the server's status, may have come in time.
  return status.ok() ? deadline_.InTime(outcome) : deadline_.StatusOf(status);
}

}  // namespace tensorkv
