// What the servers have in common.

#ifndef TENSORKV_BENCH_SERVER_API_SINK_H_
#define TENSORKV_BENCH_SERVER_API_SINK_H_

#include <cstring>
#include <vector>

#include "bench/server_api/echo_servers.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace tensorkv {

// Copies messages over one another into memory of its own, as a store copies
// them into tensors.
class Sink {
 public:
  void Take(grpc::ByteBuffer* message) {
    memory_.resize(kMaxSinkBytes);
    grpc::ProtoBufferReader reader(message);
    const void* data = nullptr;
    int size = 0;
    size_t offset = 0;
    while (reader.Next(&data, &size)) {
      if (offset + size > memory_.size()) return;
      std::memcpy(memory_.data() + offset, data, size);
      offset += size;
    }
  }

 private:
  std::vector<char> memory_;
};

inline grpc::ByteBuffer EmptyMessage() {
  const grpc::Slice slice;
  return grpc::ByteBuffer(&slice, 1);
}

inline void ListenOnLoopback(grpc::ServerBuilder* builder, int* port) {
  builder->AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                            port);
  builder->SetMaxReceiveMessageSize(kMaxSinkBytes + 1024);
}

}  // namespace tensorkv

#endif  // TENSORKV_BENCH_SERVER_API_SINK_H_
