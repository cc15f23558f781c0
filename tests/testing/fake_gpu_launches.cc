// What a launch of a fake GPU does: it runs on the host, with the addresses
// that the host has for those of the device.

#include <cstdint>
#include <cstring>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/op_types.h"
#include "tensor/dtype.h"
#include "tests/testing/fake_gpu.h"
#include "tests/testing/guarded_memory.h"
#include "tests/testing/host_update.h"

namespace tensorkv::testing {

template <typename T>
absl::Status FakeGpu::Translate(T*& address) const {
  if (address == nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(char* const memory, Find(address, 1));
  address = reinterpret_cast<T*>(memory);
  return absl::OkStatus();
}

// What is assigned may go to the host.
absl::Status FakeGpu::TranslateValue(RuleKind rule, UpdateEntry& entry) const {
  if (rule == RuleKind::kAssign && entry.value != nullptr &&
      !IsDeviceAddress(entry.value)) {
    const size_t size = SizeOf(static_cast<DType>(entry.value_type));
    return CheckPinned(entry.value, entry.num_elements * size);
  }
  return Translate(entry.value);
}

absl::Status FakeGpu::TranslateContributions(
    UpdateEntry& entry, const UpdateWork& work,
    std::vector<SourceArray>& out) const {
  const auto first = static_cast<uint32_t>(out.size());
  for (uint32_t k = 0; k < entry.num_contributions; ++k) {
    SourceArray source = work.contributions[entry.first_contribution + k];
    if (source.data != nullptr) {
      ASSIGN_OR_RETURN(source.data, FindToRead(source.data, 1));
    }
    out.push_back(source);
  }
  entry.first_contribution = first;
  return absl::OkStatus();
}

// Runs over a copy of the table with addresses that the host can use.
// That which travels with the launch has them already.
absl::Status FakeGpu::RunLaunch(UpdateLaunch launch,
                                absl::string_view table_beside) const {
  UpdateParameters parameters;
  parameters.work = launch.work;
  if (launch.table != nullptr && table_beside.size() > kMaxTableBeside) {
    return absl::InternalError("that table cannot travel with a launch");
  }
  std::memcpy(parameters.table, table_beside.data(), table_beside.size());
  UpdateWork& work = launch.work = WorkOf(parameters);
  if (launch.table == nullptr) {
    RETURN_IF_ERROR(
        Find(work.chunks, work.num_chunks * sizeof(WorkChunk)).status());
    RETURN_IF_ERROR(Translate(work.chunks));
    RETURN_IF_ERROR(Translate(work.entries));
    RETURN_IF_ERROR(Translate(work.functors));
    RETURN_IF_ERROR(Translate(work.contributions));
    RETURN_IF_ERROR(Translate(work.packings));
    RETURN_IF_ERROR(Translate(work.weights));
  }
  const bool has_scratch = SumsOfRule(launch.rule).num_phases > 0;
  if (has_scratch) RETURN_IF_ERROR(Translate(work.scratch));
  std::map<uint32_t, UpdateEntry> entries;
  for (uint32_t i = 0; i < work.num_chunks; ++i) {
    const uint32_t index = work.chunks[i].entry;
    entries.try_emplace(index, work.entries[index]);
  }
  std::vector<UpdateEntry> table(entries.rbegin()->first + 1);
  std::vector<SourceArray> contributions;
  for (auto& [index, entry] : entries) {
    RETURN_IF_ERROR(TranslateValue(launch.rule, entry));
    RETURN_IF_ERROR(Translate(entry.current.data));
    RETURN_IF_ERROR(Translate(entry.master));
    for (void*& state : entry.states) RETURN_IF_ERROR(Translate(state));
    RETURN_IF_ERROR(TranslateContributions(entry, work, contributions));
    table[index] = entry;
  }
  work.entries = table.data();
  work.contributions = contributions.data();
  RunUpdateOnHost(launch);
  return absl::OkStatus();
}

}  // namespace tensorkv::testing
