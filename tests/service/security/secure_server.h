// Servers that ask who calls, with files of their own, and calls to them.

#ifndef TENSORKV_TESTS_SERVICE_SECURITY_SECURE_SERVER_H_
#define TENSORKV_TESTS_SERVICE_SECURITY_SECURE_SERVER_H_

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/bearer_token.h"
#include "client/internal/transfer/channel_security.h"
#include "contract/grpc_status.h"
#include "contract/method.h"
#include "contract/reason.h"
#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/rpc_method.h"
#include "grpcpp/support/sync_stream.h"
#include "gtest/gtest.h"
#include "service/server/server.h"
#include "tests/testing/certificates.h"
#include "tests/testing/status_matchers.h"
#include "tests/testing/stubs.h"

namespace tensorkv::secure_server_test {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using testing::Authority;
using testing::Identity;

inline constexpr char kServerNames[] = "DNS:tensorkv.test,IP:127.0.0.1";
inline constexpr char kNamespace[] = "team";

// A tensor of one element; in streams its bytes come later.
inline v1::Tensor OneElement(v1::DType dtype, const std::string& data,
                             bool is_stream) {
  v1::Tensor tensor;
  tensor.set_dtype(dtype);
  tensor.add_shape(1);
  if (!is_stream) tensor.set_data(data);
  return tensor;
}

// Gives the message, as far as it has such fields, what a call needs to be
// about one key of the namespace.
inline void Fill(Message& message, Method method) {
  const bool is_stream = KindOf(method) != MethodKind::kUnary;
  const auto& type = *message.GetDescriptor();
  const auto& reflection = *message.GetReflection();
  const auto set = [&](const char* name, const std::string& text) {
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr) return;
    if (field->is_repeated()) {
      reflection.AddString(&message, field, text);
    } else {
      reflection.SetString(&message, field, text);
    }
  };
  set("namespace", kNamespace);
  set("keys", "k");
  set("key", "k");
  set("name", "n");
  set("worker_name", "w");
  const auto inner = [&](const char* name) -> Message* {
    const FieldDescriptor* field = type.FindFieldByName(name);
    if (field == nullptr) return nullptr;
    return field->is_repeated() ? reflection.AddMessage(&message, field)
                                : reflection.MutableMessage(&message, field);
  };
  if (Message* tensor = inner("tensor")) {
    tensor->CopyFrom(OneElement(v1::DTYPE_U8, "x", is_stream));
  }
  if (Message* rows = inner("rows")) {
    rows->CopyFrom(OneElement(v1::DTYPE_I64, std::string(8, '\0'), is_stream));
  }
  if (Message* worker = inner("worker")) {
    static_cast<v1::Worker*>(worker)->set_rank(0);
    static_cast<v1::Worker*>(worker)->set_epoch(1);
  }
  // A manifest of pushes has one or the other.
  const bool is_push_manifest = type.full_name() == "tensorkv.v1.PushManifest";
  const char* const push = is_push_manifest && method == Method::kPushPullStream
                               ? "push_pull"
                               : "push";
  for (const char* name :
       {"manifest", "init", "pull", push, "entries", "rule", "multipliers"}) {
    if (Message* message = inner(name)) Fill(*message, method);
  }
}

inline grpc::ByteBuffer RequestOf(Method method) {
  const auto* type =
      v1::PushRequest::descriptor()
          ->file()
          ->pool()
          ->FindServiceByName(std::string(NameOf(ServiceOf(method))))
          ->FindMethodByName(std::string(NameOf(method)))
          ->input_type();
  const std::unique_ptr<Message> message(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(type)
          ->New());
  Fill(*message, method);
  const grpc::Slice slice(message->SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

inline constexpr char kTrace[] =
    "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7";

// Makes any call, as a stream: on the wire, all kinds are alike.
inline absl::Status Call(const std::shared_ptr<grpc::Channel>& channel,
                         Method method, const std::string& token = "",
                         bool wait_for_ready = false) {
  grpc::ClientContext context;
  context.set_wait_for_ready(wait_for_ready);
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::seconds(60));
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  context.AddMetadata("traceparent", absl::StrCat("00-", kTrace, "-01"));
  const grpc::internal::RpcMethod path(
      PathOf(method), grpc::internal::RpcMethod::BIDI_STREAMING, channel);
  using Stream = grpc::ClientReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;
  const std::unique_ptr<Stream> stream(
      grpc::internal::ClientReaderWriterFactory<
          grpc::ByteBuffer, grpc::ByteBuffer>::Create(channel.get(), path,
                                                      &context));
  stream->WriteLast(RequestOf(method), grpc::WriteOptions());
  grpc::ByteBuffer reply;
  while (stream->Read(&reply)) reply.Clear();
  return FromGrpcStatus(stream->Finish());
}

inline bool IsRefusal(const absl::Status& status) {
  return ReasonOf(status) == Reason::kUnauthenticated ||
         ReasonOf(status) == Reason::kPermissionDenied;
}

inline std::string TokenLine(const std::string& name) {
  const TokenDigest digest = DigestOf(name);
  return absl::StrCat(
      name, " ",
      absl::BytesToHexString(
          {reinterpret_cast<const char*>(digest.data()), digest.size()}),
      "\n");
}

inline constexpr char kPolicy[] = R"(
grants { callers: "token:watcher" namespaces: "team" role: WATCH }
grants { callers: "token:reader" namespaces: "team" role: READ }
grants { callers: "token:pusher" namespaces: "team" role: PUSH }
grants { callers: "token:leaser" namespaces: "team" role: LEASE }
grants { callers: "token:publisher" namespaces: "team" role: PUBLISH }
grants { callers: "token:trainer" namespaces: "team" role: [PUSH, PUBLISH] }
grants { callers: "token:admin" namespaces: "team" role: ADMIN }
grants { callers: "token:elsewhere" namespaces: "other" role: ADMIN }
grants { callers: "token:root" namespaces: "*" role: ADMIN }
grants { callers: "spiffe://cluster/trainer" namespaces: "*" role: READ }
)";

// A server with files of its own. Tokens are the names of their bearers.
class SecureServerTest : public ::testing::Test {
 protected:
  SecureServerTest() : directory_(::testing::TempDir() + "/secure.XXXXXX") {
    EXPECT_NE(mkdtemp(directory_.data()), nullptr);
    Install(authority_.Issue("server", kServerNames), "server");
    Write("ca.crt", authority_.certificate());
    Write("policy", kPolicy);
    std::string tokens;
    for (const char* name :
         {"watcher", "reader", "leaser", "pusher", "publisher", "trainer",
          "admin", "elsewhere", "root"}) {
      tokens += TokenLine(name);
    }
    Write("tokens", tokens);
  }

  std::string Path(const std::string& name) const {
    return absl::StrCat(directory_, "/", name);
  }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
  }
  void Install(const Identity& identity, const std::string& name) const {
    Write(name + ".crt", identity.certificate);
    Write(name + ".key", identity.key);
  }

  ServerOptions Options() const {
    return {.listen = "127.0.0.1:0",
            .tls = {.cert = Path("server.crt"), .key = Path("server.key")},
            .watch_period = absl::Milliseconds(20),
            .policy_file = Path("policy"),
            .token_file = Path("tokens"),
            .budget_bytes = 1 << 20,
            .num_threads = 1};
  }
  ServerOptions WithClientCertificates() const {
    ServerOptions options = Options();
    options.tls.client_ca = Path("ca.crt");
    return options;
  }

  // A server, and a connection to it that proves nothing.
  void Start(const ServerOptions& options) {
    server_ = Server::Create(options).value();
    channel_ = Connect(server_->address(), {.tls_ca = Path("ca.crt")});
    stub_ = std::make_unique<testing::Stubs>(channel_);
  }
  static std::shared_ptr<grpc::Channel> Connect(
      const std::string& target, const Credentials& credentials) {
    auto security = MakeChannelSecurity(credentials, target);
    EXPECT_OK(security.status());
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (!security->server_name.empty()) {
      arguments.SetSslTargetNameOverride(security->server_name);
    }
    return grpc::CreateCustomChannel(target, security->credentials, arguments);
  }
  Credentials WithCertificate(const std::string& name) const {
    return {.tls_ca = Path("ca.crt"),
            .tls_cert = Path(name + ".crt"),
            .tls_key = Path(name + ".key")};
  }

  const Authority authority_{"authority"};
  const Authority stranger_{"stranger"};
  std::string directory_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<testing::Stubs> stub_;
};

}  // namespace tensorkv::secure_server_test

#endif  // TENSORKV_TESTS_SERVICE_SECURITY_SECURE_SERVER_H_
