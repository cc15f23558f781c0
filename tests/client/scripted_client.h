// A client whose server's answers a test writes down, and what tests give it.

#ifndef TENSORKV_TESTS_CLIENT_SCRIPTED_CLIENT_H_
#define TENSORKV_TESTS_CLIENT_SCRIPTED_CLIENT_H_

#include <memory>
#include <vector>

#include "absl/strings/string_view.h"
#include "client/client.h"
#include "client/compression/compression.h"
#include "client/destination.h"
#include "gtest/gtest.h"
#include "tests/client/scripted_connection.h"

namespace tensorkv::testing {

class ScriptedClientTest : public ::testing::Test {
 protected:
  Client MakeClient(const ClientOptions& options) {
    return Client(std::make_unique<ScriptedConnection>(script_), options);
  }
  Client MakeWorker() { return MakeClient({.name_space = "n", .rank = 2}); }
  // For clients that push one key.
  void AnswerPushes() { script_.reply<PushRequest>().results.resize(1); }

  Script script_;
};

inline JoinReply JoinedAs(const Worker& worker, Step next_step) {
  JoinReply reply;
  SetWorker(worker, reply.mutable_worker());
  reply.set_next_step(next_step);
  return reply;
}

// Encodes all tensors so, however small.
inline CompressionOptions EncodeAll(absl::string_view compression) {
  return {.rules = {{"", *Compression::Parse(compression)}}, .min_bytes = 0};
}

inline Destination DestinationOf(std::vector<float>& elements) {
  return {.dtype = DType::kF32,
          .shape = Shape({static_cast<int64_t>(elements.size())}),
          .memory = {reinterpret_cast<char*>(elements.data()),
                     elements.size() * sizeof(float)}};
}

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CLIENT_SCRIPTED_CLIENT_H_
