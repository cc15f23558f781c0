// Decides how long gRPC lives in a process.

#ifndef TENSORKV_CONTRACT_KEEP_GRPC_H_
#define TENSORKV_CONTRACT_KEEP_GRPC_H_

namespace tensorkv {

// Keeps gRPC initialised until the process ends. Otherwise gRPC shuts down with
// the last channel or server, and whoever closes that waits: for up to 10 s if
// some connection has once not taken all that was written to it, since gRPC's
// thread for such connections does not notice the shutdown. Thread-safe; later
// calls do nothing.
void KeepGrpc();

}  // namespace tensorkv

#endif  // TENSORKV_CONTRACT_KEEP_GRPC_H_
