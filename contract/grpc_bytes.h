// The boundary between EncodedMessage and gRPC's byte buffers, for server and
// client. The other way no code is needed: grpc::ProtoBufferReader reads a
// ByteBuffer as a stream, and a second one reads it again.

#ifndef TENSORKV_CONTRACT_GRPC_BYTES_H_
#define TENSORKV_CONTRACT_GRPC_BYTES_H_

#include "contract/encoded_message.h"
#include "grpcpp/support/byte_buffer.h"

namespace tensorkv {

// Returns the message as one slice per piece, without a copy. Each slice keeps
// its piece's buffer alive until gRPC has sent it, and may drop the buffer on
// any thread. Thread-safe.
grpc::ByteBuffer ToByteBuffer(const EncodedMessage& message);

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_GRPC_BYTES_H_
