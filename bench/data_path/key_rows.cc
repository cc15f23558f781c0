#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "bench/data_path/loads.h"
#include "bench/data_path/rows.h"
#include "bench/data_path/workload.h"
#include "bench/harness/clocks.h"

namespace tensorkv::bench {
namespace {

constexpr char kKeyServer[] = "tensorkv #keys";
constexpr int64_t kMostKeys = 1'000'000;
constexpr int64_t kFewestKeys = 100;
constexpr int64_t kValueBytes = 1024;
constexpr int kKeysPerCall = 100;
// What a call that fills the namespace brings: 10 MiB.
constexpr int64_t kKeysPerFill = 10'000;
// More batches than the caches hold keys of.
constexpr int kNumBatches = 256;

using Keys = std::vector<std::string>;

std::string KeyOf(int64_t index) { return absl::StrFormat("key%07d", index); }

std::vector<PushEntry> PushesOf(const Keys& keys, const Tensor& value) {
  std::vector<PushEntry> entries;
  for (const std::string& key : keys) {
    entries.push_back({.key = key, .tensor = value});
  }
  return entries;
}

// Keys of one size in a namespace of their own, and what memory they took.
class Population {
 public:
  static absl::StatusOr<std::shared_ptr<Population>> Create(Servers* servers,
                                                            int64_t num_keys) {
    auto population = std::make_shared<Population>();
    population->num_keys_ = num_keys;
    ASSIGN_OR_RETURN(population->server_, servers->Get(kKeyServer));
    ASSIGN_OR_RETURN(population->value_, MakeValues(kValueBytes));
    ASSIGN_OR_RETURN(population->client_,
                     Connect(servers, kKeyServer,
                             {.name_space = absl::StrCat("keys-", num_keys)}));
    RETURN_IF_ERROR(population->Fill());
    return population;
  }

  // Returns what the server has more than it had, per key, beyond the values.
  double bytes_after_init() const { return bytes_after_init_; }
  double bytes_after_push() const { return bytes_after_push_; }

  // Calls over kKeysPerCall keys, which are those that List has on a page, or
  // random ones. `self` is this object.
  static Load ListLoad(const std::shared_ptr<Population>& self) {
    return self->LoadOf(
        0, [self, token = std::string()]() mutable -> absl::Status {
          ListRequest request;
          request.set_page_size(kKeysPerCall);
          request.set_page_token(token);
          ASSIGN_OR_RETURN(const ListReply page, self->client_->List(request));
          token = page.next_page_token();  // After the last: the first.
          if (page.keys_size() == kKeysPerCall) return absl::OkStatus();
          return absl::InternalError(absl::StrCat(
              "expected ", kKeysPerCall, " keys, got ", page.keys_size()));
        });
  }
  static Load StatLoad(const std::shared_ptr<Population>& self) {
    return self->LoadOf(
        0, [self, batches = self->RandomBatches(), next = size_t{0}]() mutable {
          return self->client_->Stat(batches[next++ % kNumBatches]).status();
        });
  }
  static Load PushLoad(const std::shared_ptr<Population>& self) {
    std::vector<std::vector<PushEntry>> pushes;
    for (const Keys& keys : self->RandomBatches()) {
      pushes.push_back(PushesOf(keys, self->value_));
    }
    return self->LoadOf(
        kKeysPerCall * kValueBytes,
        [self, pushes = std::move(pushes), next = size_t{0}]() mutable {
          return self->client_->Push(pushes[next++ % kNumBatches]).status();
        });
  }

 private:
  absl::Status Fill() {
    const int64_t before = ResidentBytesOf(server_.pid);
    const auto bytes_per_key = [&] {
      return 1.0 * (ResidentBytesOf(server_.pid) - before) / num_keys_ -
             kValueBytes;
    };
    RETURN_IF_ERROR(InBatches([this](const Keys& keys) {
      std::vector<InitEntry> entries;
      for (const std::string& key : keys) {
        entries.push_back({.key = key, .tensor = value_});
      }
      return client_->Init(std::move(entries));
    }));
    bytes_after_init_ = bytes_per_key();
    RETURN_IF_ERROR(InBatches([this](const Keys& keys) {
      return client_->Push(PushesOf(keys, value_)).status();
    }));
    bytes_after_push_ = bytes_per_key();
    return absl::OkStatus();
  }

  // Calls with all keys, some at a time.
  absl::Status InBatches(absl::FunctionRef<absl::Status(const Keys&)> call) {
    for (int64_t begin = 0; begin < num_keys_; begin += kKeysPerFill) {
      const int64_t end = std::min(begin + kKeysPerFill, num_keys_);
      Keys keys;
      for (int64_t i = begin; i < end; ++i) keys.push_back(KeyOf(i));
      RETURN_IF_ERROR(call(keys));
    }
    return absl::OkStatus();
  }

  // Batches of random keys, none of them twice in a batch.
  std::vector<Keys> RandomBatches() const {
    std::minstd_rand random;
    std::uniform_int_distribution<int64_t> indexes(0, num_keys_ - 1);
    std::vector<Keys> batches(kNumBatches);
    for (Keys& batch : batches) {
      absl::flat_hash_set<int64_t> chosen;
      while (chosen.size() < kKeysPerCall) {
        const int64_t index = indexes(random);
        if (chosen.insert(index).second) batch.push_back(KeyOf(index));
      }
    }
    return batches;
  }

  Load LoadOf(int64_t bytes, std::function<absl::Status()> call) const {
    return {.call = std::move(call),
            .bytes = bytes,
            .keys = kKeysPerCall,
            .server = server_.pid};
  }

  ServerProcess server_;
  std::shared_ptr<Client> client_;
  int64_t num_keys_ = 0;
  Tensor value_;
  double bytes_after_init_ = 0;
  double bytes_after_push_ = 0;
};

// Populations by their size, each made when it is first asked for: a million
// keys take a while. The million comes first, for its memory to be seen.
class Populations {
 public:
  explicit Populations(Servers* servers) : servers_(servers) {}

  absl::StatusOr<std::shared_ptr<Population>> Get(int64_t num_keys) {
    if (num_keys != kMostKeys) RETURN_IF_ERROR(Get(kMostKeys).status());
    std::shared_ptr<Population>& population = made_[num_keys];
    if (population == nullptr) {
      ASSIGN_OR_RETURN(population, Population::Create(servers_, num_keys));
    }
    return population;
  }

 private:
  Servers* const servers_;
  std::map<int64_t, std::shared_ptr<Population>> made_;
};

// --- Rows of a table --------------------------------------------------------

constexpr int64_t kRowElements = 64;
constexpr int64_t kRowsPerCall = 1000;
constexpr int64_t kRowBytes = kRowElements * sizeof(float);

// Pushes of random rows to a table of that many.
absl::StatusOr<Load> TableLoad(Servers* servers, const std::string& rule,
                               int64_t num_rows) {
  constexpr char kName[] = "tensorkv #table";
  ASSIGN_OR_RETURN(const ServerProcess server, servers->Get(kName));
  ASSIGN_OR_RETURN(const std::shared_ptr<Client> client,
                   Connect(servers, kName, {.name_space = "table-" + rule},
                           {.rule = {.name = rule}}));
  const std::string key = absl::StrCat("table.", num_rows);
  ASSIGN_OR_RETURN(Tensor table,
                   Tensor::Filled(DType::kF32, {num_rows, kRowElements}, 1));
  RETURN_IF_ERROR(client->Init(key, std::move(table), OnExisting::kReplace));
  ASSIGN_OR_RETURN(
      Tensor rows,
      Tensor::Filled(DType::kF32, {kRowsPerCall, kRowElements}, 1));
  std::minstd_rand random;
  std::uniform_int_distribution<int64_t> indexes(0, num_rows - 1);
  std::vector<RefPtr<const RowIds>> batches;
  for (int i = 0; i < kNumBatches; ++i) {
    ASSIGN_OR_RETURN(Tensor ids, Tensor::Allocate(DType::kI64, {kRowsPerCall}));
    for (int64_t& id : ids.mutable_elements<int64_t>()) id = indexes(random);
    batches.emplace_back();
    ASSIGN_OR_RETURN(batches.back(), RowIds::Create(std::move(ids)));
  }
  return Load{.call =
                  [=, next = size_t{0}]() mutable {
                    return client
                        ->PushRows(key, batches[next++ % kNumBatches], rows)
                        .status();
                  },
              .bytes = kRowsPerCall * kRowBytes,
              .keys = kRowsPerCall,
              .server = server.pid};
}

Row TableRow(Servers* servers, const std::string& rule) {
  constexpr int64_t kMostRows = 10'000'000;
  constexpr int64_t kFewestRows = 100'000;
  return {.name = absl::StrCat("rows/", rule, "/", kMostRows),
          .make_load = [=] { return TableLoad(servers, rule, kMostRows); },
          .references = {{absl::StrCat(kFewestRows, " rows"),
                          [=] { return TableLoad(servers, rule, kFewestRows); },
                          0.5}},
          .is_quick = false};
}

}  // namespace

std::vector<Row> KeyRows(Servers* servers) {
  const auto populations = std::make_shared<Populations>(servers);
  std::vector<Row> rows;
  const auto add_memory = [&](const char* moment,
                              double (Population::*bytes)() const) {
    rows.push_back({.name = absl::StrCat("memory/key/", moment),
                    .figure = [=]() -> absl::StatusOr<double> {
                      ASSIGN_OR_RETURN(const auto most,
                                       populations->Get(kMostKeys));
                      return (*most.*bytes)();
                    },
                    .most = 300});
  };
  const auto add_calls = [&](const char* verb,
                             Load (*make)(const std::shared_ptr<Population>&)) {
    const auto load = [=](int64_t num_keys) -> absl::StatusOr<Load> {
      ASSIGN_OR_RETURN(const auto population, populations->Get(num_keys));
      return make(population);
    };
    // "Flat": the caches hold fewer of so many keys, and no more than that.
    rows.push_back({.name = absl::StrCat("keys/", verb, "/", kMostKeys),
                    .make_load = [=] { return load(kMostKeys); },
                    .references = {{absl::StrCat(kFewestKeys, " keys"),
                                    [=] { return load(kFewestKeys); }, 0.5}}});
  };
  add_memory("init", &Population::bytes_after_init);
  add_memory("push", &Population::bytes_after_push);
  add_calls("list", &Population::ListLoad);
  add_calls("stat", &Population::StatLoad);
  add_calls("push", &Population::PushLoad);
  rows.push_back(TableRow(servers, "assign"));
  rows.push_back(TableRow(servers, "adagrad"));
  return rows;
}

}  // namespace tensorkv::bench
