#include "contract/keep_grpc.h"

#include "grpc/grpc.h"

namespace tensorkv {

void KeepGrpc() {
  [[maybe_unused]] static const bool is_kept = [] {
    grpc_init();
    return true;
  }();
}

}  // namespace tensorkv
