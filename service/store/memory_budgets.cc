#include "service/store/memory_budgets.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace tensorkv {
namespace {

uint64_t Total(const BytesByDevice& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), uint64_t{0}, SumOfBytes);
}

MemoryUse UseOf(const MemoryAccounts& accounts) {
  return {.values = accounts.values->used_bytes(),
          .state = accounts.state->used_bytes(),
          .contributions = accounts.contributions->used_bytes()};
}

}  // namespace

ServerBudgets::ServerBudgets(uint64_t host_bytes,
                             absl::Span<const uint64_t> gpu_bytes,
                             const DeviceSet& devices)
    : host_(MakeRefCounted<ByteBudget>("server", host_bytes)) {
  if (devices.is_host()) {
    names_.emplace_back(devices[0].name());
    devices_.push_back(host_);
    return;
  }
  for (size_t i = 0; i < devices.size(); ++i) {
    names_.emplace_back(devices[static_cast<DeviceIndex>(i)].name());
    devices_.push_back(MakeRefCounted<ByteBudget>(
        absl::StrCat("server, ", names_[i]), gpu_bytes.at(i)));
  }
}

uint64_t ServerBudgets::largest_bytes() const {
  uint64_t device_bytes = 0;
  for (const RefPtr<ByteBudget>& device : devices_) {
    device_bytes = SumOfBytes(device_bytes, device->limit_bytes());
  }
  return std::max(host_->limit_bytes(), device_bytes);
}

std::vector<DeviceBudget> ServerBudgets::DeviceBudgets() const {
  std::vector<DeviceBudget> budgets;
  if (!has_gpus()) return budgets;
  for (size_t i = 0; i < devices_.size(); ++i) {
    budgets.push_back(
        {names_[i], devices_[i]->limit_bytes(), devices_[i]->used_bytes()});
  }
  return budgets;
}

std::vector<uint64_t> ServerBudgets::FreeBytes() const {
  std::vector<uint64_t> free_bytes;
  for (const RefPtr<ByteBudget>& device : devices_) {
    free_bytes.push_back(device->limit_bytes() - device->used_bytes());
  }
  return free_bytes;
}

void DeviceReservations::Merge(DeviceIndex device, Reservation other) {
  if (device >= by_device_.size()) by_device_.resize(device + 1);
  by_device_[device].Merge(std::move(other));
}

void DeviceReservations::Merge(DeviceReservations other) {
  for (size_t i = 0; i < other.by_device_.size(); ++i) {
    Merge(static_cast<DeviceIndex>(i), std::move(other.by_device_[i]));
  }
}

NamespaceMemory::NamespaceMemory(const std::string& subject,
                                 uint64_t limit_bytes,
                                 const ServerBudgets* server)
    : server_(*server),
      host_budget_(MakeRefCounted<ByteBudget>(
          subject, limit_bytes, ByteBudget::Parents{server_.host()})),
      gpus_budget_(MakeRefCounted<ByteBudget>(absl::StrCat(subject, ", GPUs"),
                                              limit_bytes)),
      host_(host_budget_),
      metadata_(MakeRefCounted<BudgetAccount>(host_budget_)) {
  if (!server_.has_gpus()) return;
  for (const RefPtr<ByteBudget>& device : server_.devices()) {
    gpu_budgets_.push_back(MakeRefCounted<ByteBudget>(
        subject, UINT64_MAX, ByteBudget::Parents{gpus_budget_, device}));
    gpus_.emplace_back(gpu_budgets_.back());
  }
}

absl::Status NamespaceMemory::CheckRoom(const BytesNeeded& bytes) const {
  if (gpus_.empty()) {
    return host_budget_->CheckRoom(
        SumOfBytes(bytes.host, Total(bytes.devices)));
  }
  RETURN_IF_ERROR(host_budget_->CheckRoom(bytes.host));
  RETURN_IF_ERROR(gpus_budget_->CheckRoom(Total(bytes.devices)));
  for (size_t i = 0; i < bytes.devices.size(); ++i) {
    RETURN_IF_ERROR(gpu_budgets_[i]->CheckRoom(bytes.devices[i]));
  }
  return absl::OkStatus();
}

absl::StatusOr<DeviceReservations> NamespaceMemory::Reserve(
    RefPtr<BudgetAccount> MemoryAccounts::*use,
    const BytesByDevice& bytes) const {
  DeviceReservations reservations;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto device = static_cast<DeviceIndex>(i);
    ASSIGN_OR_RETURN(Reservation reservation,
                     Reservation::Create(on(device).*use, bytes[i]));
    reservations.Merge(device, std::move(reservation));
  }
  return reservations;
}

MemoryUse NamespaceMemory::used() const {
  MemoryUse used = UseOf(host_);
  used.metadata = metadata_->used_bytes();
  for (const MemoryAccounts& gpu : gpus_) {
    const MemoryUse on_gpu = UseOf(gpu);
    used.values += on_gpu.values;
    used.state += on_gpu.state;
    used.contributions += on_gpu.contributions;
  }
  return used;
}

std::vector<DeviceMemoryUse> NamespaceMemory::used_on_gpus() const {
  std::vector<DeviceMemoryUse> used;
  for (size_t i = 0; i < gpus_.size(); ++i) {
    used.push_back({server_.device_name(i), UseOf(gpus_[i])});
  }
  return used;
}

DeviceIndex Placement::Place(uint64_t size_bytes) {
  const auto most = std::max_element(free_bytes_.begin(), free_bytes_.end());
  *most -= std::min(*most, size_bytes);
  return static_cast<DeviceIndex>(most - free_bytes_.begin());
}

}  // namespace tensorkv
