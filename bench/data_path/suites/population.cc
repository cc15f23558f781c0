#include "bench/data_path/suites/population.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bench/data_path/peers/payload.h"
#include "bench/data_path/peers/tensorkv_peer.h"

namespace tensorkv::bench {
namespace {

// What a call that fills the namespace brings: 10 MiB.
constexpr int64_t kKeysPerFill = 10'000;

// More batches than the caches hold keys of.
constexpr int kNumBatches = 256;

std::string KeyOf(int64_t index) { return absl::StrFormat("key%07d", index); }

std::vector<PushEntry> PushesOf(const std::vector<std::string>& keys,
                                const Tensor& value) {
  std::vector<PushEntry> entries;
  entries.reserve(keys.size());
  for (const std::string& key : keys) {
    entries.push_back({.key = key, .tensor = value});
  }
  return entries;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Population>> Population::Create(
    const ServerProcess& server, int64_t num_keys) {
  const std::string name = absl::StrCat("keys-", num_keys);
  ASSIGN_OR_RETURN(std::unique_ptr<Client> client,
                   Client::Connect({.target = server.address,
                                    .name_space = name,
                                    .timeout = kCallTimeout}));
  RETURN_IF_ERROR(client->CreateNamespace(name, {}));
  ASSIGN_OR_RETURN(Tensor value, MakeValues(kValueBytes));
  std::unique_ptr<Population> population(new Population(
      std::move(client), num_keys, server.pid(), std::move(value)));
  RETURN_IF_ERROR(population->Fill());
  return population;
}

absl::Status Population::Fill() {
  return InBatches([this](const std::vector<std::string>& keys) {
    std::vector<InitEntry> entries;
    for (const std::string& key : keys) {
      entries.push_back({.key = key, .tensor = value_});
    }
    return client_->Init(std::move(entries));
  });
}

absl::Status Population::PushAll() {
  return InBatches([this](const std::vector<std::string>& keys) {
    return client_->Push(PushesOf(keys, value_)).status();
  });
}

absl::Status Population::InBatches(
    absl::FunctionRef<absl::Status(const std::vector<std::string>&)> call) {
  for (int64_t begin = 0; begin < num_keys_; begin += kKeysPerFill) {
    const int64_t end = std::min(begin + kKeysPerFill, num_keys_);
    std::vector<std::string> keys;
    for (int64_t i = begin; i < end; ++i) keys.push_back(KeyOf(i));
    RETURN_IF_ERROR(call(keys));
  }
  return absl::OkStatus();
}

std::unique_ptr<Load> Population::MakeListLoad() {
  return std::make_unique<FunctionLoad>(
      ShapeOf(0), [this, token = std::string()](int) mutable -> absl::Status {
        ASSIGN_OR_RETURN(ListReply page, client_->List({
                                             .page_size = kKeysPerCall,
                                             .page_token = token,
                                         }));
        token = std::move(page.next_page_token);  // After the last: the first.
        if (page.keys.size() == kKeysPerCall) return absl::OkStatus();
        return absl::InternalError(absl::StrCat(
            "expected ", kKeysPerCall, " keys, got ", page.keys.size()));
      });
}

std::unique_ptr<Load> Population::MakeStatLoad() {
  return std::make_unique<FunctionLoad>(
      ShapeOf(0),
      [this, batches = RandomBatches(), next = size_t{0}](int) mutable {
        const std::vector<std::string>& keys = batches[next++ % kNumBatches];
        return client_->Stat(keys).status();
      });
}

std::unique_ptr<Load> Population::MakePushLoad() {
  std::vector<std::vector<PushEntry>> pushes;
  for (const std::vector<std::string>& keys : RandomBatches()) {
    pushes.push_back(PushesOf(keys, value_));
  }
  return std::make_unique<FunctionLoad>(
      ShapeOf(kKeysPerCall * kValueBytes),
      [this, pushes = std::move(pushes), next = size_t{0}](int) mutable {
        return client_->Push(pushes[next++ % kNumBatches]).status();
      });
}

std::vector<std::vector<std::string>> Population::RandomBatches() const {
  std::minstd_rand random;
  std::uniform_int_distribution<int64_t> indexes(0, num_keys_ - 1);
  std::vector<std::vector<std::string>> batches(kNumBatches);
  for (std::vector<std::string>& batch : batches) {
    absl::flat_hash_set<int64_t> chosen;
    while (chosen.size() < kKeysPerCall) {
      const int64_t index = indexes(random);
      if (chosen.insert(index).second) batch.push_back(KeyOf(index));
    }
  }
  return batches;
}

LoadShape Population::ShapeOf(int64_t bytes_per_call) const {
  return {.bytes_per_call = bytes_per_call,
          .keys_per_call = kKeysPerCall,
          .server = server_};
}

}  // namespace tensorkv::bench
