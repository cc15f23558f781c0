// A shared library in the place of NCCL's, for fake GPUs of one process: what a
// server needs of NCCL, by the same names. It is stricter: communicators must
// not block, and nobody hears of a process that has gone.

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nccl.h"
#include "tests/testing/fake_device_hub.h"

using tensorkv::testing::FakeDeviceHub;
using tensorkv::testing::FakeStreamHandle;

// The name is NCCL's.
struct ncclComm {
  std::shared_ptr<FakeDeviceHub::Member> member;
};

namespace {

FakeDeviceHub& Hub() {
  static FakeDeviceHub* const hub = new FakeDeviceHub();
  return *hub;
}

// The group that the thread has begun.
struct OpenGroup {
  bool is_open = false;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<FakeDeviceHub::Piece> pieces;
};
thread_local OpenGroup open_group;

ncclResult_t Add(FakeDeviceHub::Piece piece, ncclDataType_t type,
                 ncclComm_t comm, cudaStream_t stream) {
  if (!open_group.is_open || type != ncclInt8) return ncclInvalidUsage;
  open_group.comm = comm;
  open_group.stream = stream;
  open_group.pieces.push_back(piece);
  return ncclSuccess;
}

}  // namespace

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = 22304;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  const std::string made = Hub().NewId();
  static_assert(FakeDeviceHub::kIdBytes == sizeof(id->internal));
  std::memcpy(id->internal, made.data(), made.size());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id,
                                    int rank, ncclConfig_t* config) {
  if (config->blocking != 0) return ncclInvalidUsage;
  auto member =
      Hub().Join(std::string(id.internal, sizeof(id.internal)),
                 static_cast<uint32_t>(rank), static_cast<uint32_t>(size));
  if (member == nullptr) return ncclSystemError;
  *comm = new ncclComm{std::move(member)};
  return ncclInProgress;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  *result = comm->member->has_met() ? ncclSuccess : ncclInProgress;
  return ncclSuccess;
}

const char* ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart() {
  open_group = {.is_open = true};
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  const OpenGroup group = std::exchange(open_group, {});
  if (!group.is_open) return ncclInvalidUsage;
  if (group.pieces.empty()) return ncclSuccess;
  group.comm->member->Exchange(
      group.pieces, reinterpret_cast<FakeStreamHandle*>(group.stream));
  return ncclInProgress;
}

ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  return Add({.peer = static_cast<uint32_t>(peer),
              .is_sent = true,
              .data = static_cast<char*>(const_cast<void*>(data)),
              .size_bytes = count},
             type, comm, stream);
}

ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return Add({.peer = static_cast<uint32_t>(peer),
              .data = static_cast<char*>(data),
              .size_bytes = count},
             type, comm, stream);
}

}  // extern "C"
