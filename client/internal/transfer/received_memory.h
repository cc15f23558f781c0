// Memory that gRPC receives into.

#ifndef TENSORKV_CLIENT_INTERNAL_TRANSFER_RECEIVED_MEMORY_H_
#define TENSORKV_CLIENT_INTERNAL_TRANSFER_RECEIVED_MEMORY_H_

namespace tensorkv {

// Has the C library keep what gRPC receives into for what is received next.
// gRPC asks for blocks of up to some MiB and frees each when it has been read.
// Until a program has freed a block of that size, glibc maps each from the
// system, page by page, and gives it back at once, which takes longer than
// copying a tensor out of it. From then on glibc keeps up to 64 MiB that are
// free at the end of each of its arenas, of which threads that allocate at the
// same time have one each, as in a process that has freed a large block by
// itself. Changes nothing where the program or its environment has set one of
// these limits (mallopt, GLIBC_TUNABLES), or brings an allocator of its own: to
// that it is one block that is taken and freed. Thread-safe.
void KeepReceivedMemory();

}  // namespace tensorkv

#endif  // TENSORKV_CLIENT_INTERNAL_TRANSFER_RECEIVED_MEMORY_H_
