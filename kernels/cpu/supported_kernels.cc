#include "kernels/cpu/supported_kernels.h"

namespace tensorkv {
namespace {

#if defined(__x86_64__)
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("f16c");
}

bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") &&
         __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}
#else
bool HasAvx2() { return false; }
bool HasAvx512() { return false; }
#endif

}  // namespace

std::vector<const KernelTable*> SupportedKernels() {
  std::vector<const KernelTable*> tables = {PortableKernels()};
  if (HasAvx2()) tables.push_back(Avx2Kernels());
  if (HasAvx512()) tables.push_back(Avx512Kernels());
  return tables;
}

}  // namespace tensorkv
