// Memory that gRPC receives into.

#ifndef TENSORKV_CLIENT_INTERNAL_RECEIVED_MEMORY_H_
#define TENSORKV_CLIENT_INTERNAL_RECEIVED_MEMORY_H_

namespace tensorkv {

// Has the C library keep what gRPC receives into for what is received next.
// gRPC asks for blocks of up to some MiB and frees each when it has been read.
// Until a program has freed a block of that size, glibc maps each from the
// system, page by page, and gives it back at once, which takes longer than
// copying a tensor out of it. From then on the process keeps up to 64 MiB that
// are free, as one does that has freed a large block by itself. Does nothing
// where the program or its environment has set such limits (mallopt,
// GLIBC_TUNABLES), or brings an allocator of its own. Thread-safe.
void KeepReceivedMemory();

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_RECEIVED_MEMORY_H_
