// How long gRPC lives in a process.

#ifndef TENSORKV_CONTRACT_KEEP_GRPC_H_
#define TENSORKV_CONTRACT_KEEP_GRPC_H_

namespace tensorkv {

// Keeps gRPC until the process ends. It would end with the last channel or
// server otherwise, and whoever closes that waits then: for up to 10 s if a
// connection has once had more to write than it took, since a thread that was
// made to look after such is deaf to gRPC's end.
void KeepGrpc();

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_KEEP_GRPC_H_
