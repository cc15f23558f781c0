// Uses each public class from outside the repository: a worker's step over a
// connection, calls that are not waited for, rows, states, rules, messages, and
// why a call failed.
//
//   sdk_program HOST:PORT
#include <tensorkv/base/status_macros.h>
#include <tensorkv/client/change_reader.h>
#include <tensorkv/client/change_writer.h>
#include <tensorkv/client/client.h>
#include <tensorkv/client/client_observer.h>
#include <tensorkv/client/pipeline.h>
#include <tensorkv/client/worker_client.h>
#include <tensorkv/contract/reason.h>
#include <tensorkv/tensor/elements.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace {

using namespace tensorkv;  // NOLINT: all of it is what is tried here

template <typename T>
T Get(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::cerr << value.status() << "\n";
  std::exit(1);
}

void Expect(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "expected " << what << "\n";
  std::exit(1);
}

// Memory of this program, which the library only reads.
Tensor Adopted(const std::vector<float>& elements) {
  auto buffer = MakeRefCounted<AdoptedBuffer>(
      elements.data(), elements.size() * sizeof(float), [] {});
  return Get(Tensor::FromBuffer(DType::kF32,
                                {static_cast<int64_t>(elements.size()) / 2, 2},
                                std::move(buffer)));
}

void TryWorker(const ClientOptions& options) {
  auto client = Get(Client::Connect(options));
  Expect(client->Init("w", Adopted({1, 2, 3, 4})).ok(), "a new key");
  Expect(ReasonOf(client->Init("w", Adopted({1, 2}))) == Reason::kKeyExists,
         "a reason");
  auto worker = Get(WorkerClient::Join(options, {.name = "sdk"}));
  const Value sum =
      Get(worker->PushPull(worker->Resume(), "w", Adopted({1, 1, 1, 1})));
  Expect(sum.tensor.Description() == "f32[2,2]", "the shape");
  Expect(Get(ElementsOf<float>(sum.tensor))[3] == 5, "the sum");
  Expect(!ElementsOf<Half>(sum.tensor).ok(), "no elements of another dtype");
  Expect(worker->membership().ok(), "a member");
  Expect(worker->Leave().ok(), "leaves");
}

void TryRows(Client& client) {
  const std::vector<int64_t> ids = {1};
  auto rows =
      Get(RowIds::Create(Get(Tensor::CopyOf(DType::kI64, {1}, ids.data()))));
  const Value row = Get(client.PullRows("w", rows));
  Expect(row.tensor.elements<float>()[0] == 4, "the row");
}

void TryChanges(Client& client) {
  ChangeReader reader;
  Get(reader.Pull(client, {.entries = {{"w"}}}));
  const PullReply again = Get(reader.Pull(client, {.entries = {{"w"}}}));
  Expect(again.values.front().tensor.Description() == "f32[2,2]", "the value");
  Expect(reader.counts().unchanged == 1, "nothing that is sent again");
}

void TryChangedPushes(Client& client) {
  ChangeWriter writer;
  const Tensor ones = Get(Tensor::Filled(DType::kI8, {2000}, '\1'));
  Expect(client.SetRule({.name = "assign"}, "changed").ok(), "a rule");
  Expect(client.Init("changed", ones).ok(), "a key");
  Get(writer.Push(client, {{.key = "changed", .tensor = ones}}));
  Get(writer.Push(client, {{.key = "changed", .tensor = ones}}));
  Expect(writer.counts().deltas == 1, "a push of what has changed");
}

void TryStates(Client& client) {
  const Value count = Get(client.GetState("w", "update_count"));
  Expect(count.tensor.Description() == "u64[]", "the count of updates");
  Expect(client.SetState("w", "update_count", count.tensor).ok(), "a state");
}

// Counts attempts.
class Attempts final : public ClientObserver {
 public:
  void OnStarted(Method, int64_t) override { ++begun; }
  void OnEnded(Method, absl::StatusCode, absl::Duration, int64_t) override {}
  void OnEncoded(Compression::Kind, int64_t, int64_t) override {}

  std::atomic<int> begun = 0;
};

void TryBounds(ClientOptions options) {
  const auto attempts = std::make_shared<Attempts>();
  const auto canceller = std::make_shared<Canceller>();
  options.observer = attempts;
  const auto client = Get(Client::Connect(options));
  Client bounded =
      client->WithTimeout(absl::Seconds(20)).WithCanceller(canceller);
  Get(bounded.Pull("w"));
  Expect(attempts->begun == 1, "an attempt");
  canceller->Cancel();
  Expect(absl::IsCancelled(bounded.Pull("w").status()), "a cancelled call");
  Get(client->Pull("w"));
}

void TryMessages(Client& client) {
  const ServerStatus server = Get(client.DescribeServer());
  Expect(server.devices_size() == 1, "a device");
  Expect(server.start_time().seconds() > 0, "a time");
  Expect(Get(client.DescribeCluster()).placement().servers().empty(),
         "no cluster");
  RestoreCheckpointRequest request;
  request.set_name("last");
  request.add_namespaces("sdk");
  Expect(absl::IsFailedPrecondition(client.RestoreCheckpoint(request).status()),
         "no checkpoints");
  ResizeClusterReply reply;
  reply.add_servers()->set_name("a");
  const v1::ResizeClusterResponse copy = reply;
  Expect(copy.ShortDebugString() == reply.ShortDebugString(), "a copy");
}

void TryPipeline(Client& client) {
  Pipeline pipeline(&client);
  auto value = pipeline.Pull("w", 0, {.priority = 1});
  Expect(Get(value.get()).version == 2, "the version");
}

}  // namespace

int main(int, char** argv) {
  ClientOptions options = {.target = argv[1], .name_space = "sdk"};
  options.compression.rules.push_back({"", Get(Compression::Parse("f16"))});
  auto client = Get(Client::Connect(options));
  NamespaceConfig config;
  config.rule = Get(ParseRuleSpec("accumulate"));
  Expect(client->CreateNamespace("sdk", config).ok(), "a namespace");
  TryWorker(options);
  TryBounds(options);
  TryRows(*client);
  TryChanges(*client);
  TryChangedPushes(*client);
  TryStates(*client);
  TryMessages(*client);
  TryPipeline(*client);
  std::cout << NameOf(Method::kPush) << " " << NameOf(Get(ParseDType("bf16")))
            << "\n";
}
