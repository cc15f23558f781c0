#include "service/store/memory_budgets.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "contract/reason.h"
#include "service/store/names.h"

namespace tensorkv {
namespace {

// Less holds hardly a key.
constexpr uint64_t kMinBudgetBytes = 4096;

MemoryUse UseOf(const MemoryAccounts& accounts) {
  return {.values = accounts.values->used_bytes(),
          .state = accounts.state->used_bytes(),
          .contributions = accounts.contributions->used_bytes(),
          .retained = accounts.retained->used_bytes()};
}

// Counts what CheckRetained bounds.
RefPtr<ByteBudget> Unbounded() {
  return MakeRefCounted<ByteBudget>("snapshots", UINT64_MAX);
}

// Returns what is used without `freed`.
uint64_t Without(uint64_t freed, const ByteBudget& budget) {
  const uint64_t used = budget.used_bytes();
  return used - std::min(used, freed);
}

absl::Status CheckRetained(absl::string_view memory, uint64_t limit_bytes,
                           uint64_t used_bytes, uint64_t more_bytes) {
  if (SumOfBytes(used_bytes, more_bytes) <= limit_bytes) {
    return absl::OkStatus();
  }
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          memory, ": expected snapshots to keep at most ", limit_bytes,
          " bytes, got ", used_bytes, " and ", more_bytes, " more")),
      Reason::kOverBudget,
      {{"needed", more_bytes},
       {"available", limit_bytes - std::min(used_bytes, limit_bytes)}});
}

}  // namespace

ServerBudgets::ServerBudgets(uint64_t host_bytes, uint64_t device_bytes,
                             const Backend& device, uint64_t max_retained_bytes,
                             uint64_t max_delta_bytes)
    : device_name_(device.name()),
      host_(MakeRefCounted<ByteBudget>("server", host_bytes)),
      device_(device.is_host()
                  ? host_
                  : MakeRefCounted<ByteBudget>(
                        absl::StrCat("server, ", device_name_), device_bytes)),
      max_retained_bytes_(max_retained_bytes),
      retained_on_host_(Unbounded()),
      retained_on_device_(has_gpu() ? Unbounded() : retained_on_host_),
      max_delta_bytes_(max_delta_bytes),
      deltas_(MakeRefCounted<ByteBudget>("deltas", max_delta_bytes)),
      changes_(
          std::make_shared<ChangeMemory>(ChangeMemory::LimitOf(host_bytes))) {}

uint64_t ServerBudgets::RoomForDeltas() const {
  const uint64_t most =
      SumOfBytes(max_retained_bytes_, host_->available_bytes());
  return std::min(max_delta_bytes_,
                  most - std::min(most, retained_on_host_->used_bytes()));
}

absl::Status ServerBudgets::CheckRetained(const BytesNeeded& more,
                                          const BytesNeeded& freed) const {
  const auto on_host_of = [this](const BytesNeeded& bytes) {
    return has_gpu() ? bytes.host : SumOfBytes(bytes.host, bytes.device);
  };
  RETURN_IF_ERROR(tensorkv::CheckRetained(
      "server", SumOfBytes(max_retained_bytes_, host_->available_bytes()),
      Without(on_host_of(freed), *retained_on_host_), on_host_of(more)));
  if (!has_gpu()) return absl::OkStatus();
  return tensorkv::CheckRetained(
      absl::StrCat("server, ", device_name_), device_->available_bytes(),
      Without(freed.device, *retained_on_device_), more.device);
}

uint64_t ServerBudgets::largest_bytes() const {
  return std::max(host_->limit_bytes(), device_->limit_bytes());
}

absl::StatusOr<uint64_t> ServerBudgets::BudgetOf(absl::string_view name_space,
                                                 uint64_t bytes) const {
  const uint64_t most = largest_bytes();
  if (bytes == 0) return most;
  if (bytes > most) {
    return WithReason(
        absl::ResourceExhaustedError(absl::StrCat(
            "namespace ", Quoted(name_space), ": expected a budget of at most ",
            most, " bytes, the server's, got ", bytes)),
        Reason::kOverBudget, {{"needed", bytes}, {"available", most}});
  }
  if (bytes >= std::min(kMinBudgetBytes, most)) return bytes;
  return absl::InvalidArgumentError(absl::StrCat(
      "namespace ", Quoted(name_space), ": expected a budget of at least ",
      kMinBudgetBytes, " bytes, got ", bytes));
}

std::vector<DeviceBudget> ServerBudgets::DeviceBudgets() const {
  if (!has_gpu()) return {};
  return {{device_name_, device_->limit_bytes(), device_->used_bytes()}};
}

NamespaceMemory::NamespaceMemory(const std::string& subject,
                                 uint64_t limit_bytes,
                                 const ServerBudgets* server)
    : server_(*server),
      host_budget_(
          MakeRefCounted<ByteBudget>(subject, limit_bytes, server_.host())),
      device_budget_(
          server_.has_gpu()
              ? MakeRefCounted<ByteBudget>(
                    absl::StrCat(subject, ", ", server_.device_name()),
                    limit_bytes, server_.device())
              : host_budget_),
      host_(host_budget_, server_.retained_on_host()),
      device_(server_.has_gpu()
                  ? MemoryAccounts(device_budget_, server_.retained_on_device())
                  : host_),
      metadata_(MakeRefCounted<BudgetAccount>(host_budget_)) {}

absl::Status NamespaceMemory::CheckHeadroom(const BytesNeeded& bytes) const {
  if (!server_.has_gpu()) {
    return host_budget_->CheckHeadroom(SumOfBytes(bytes.host, bytes.device));
  }
  RETURN_IF_ERROR(host_budget_->CheckHeadroom(bytes.host));
  return device_budget_->CheckHeadroom(bytes.device);
}

void NamespaceMemory::SetLimit(uint64_t bytes) {
  host_budget_->SetLimit(bytes);
  device_budget_->SetLimit(bytes);
}

MemoryUse NamespaceMemory::used() const {
  MemoryUse used = UseOf(host_);
  used.metadata = metadata_->used_bytes();
  if (!server_.has_gpu()) return used;
  const MemoryUse on_device = UseOf(device_);
  used.values += on_device.values;
  used.state += on_device.state;
  used.contributions += on_device.contributions;
  used.retained += on_device.retained;
  return used;
}

std::vector<DeviceMemoryUse> NamespaceMemory::used_on_device() const {
  if (!server_.has_gpu()) return {};
  return {{server_.device_name(), UseOf(device_)}};
}

}  // namespace tensorkv
