// Requests that no client would send, made from the contract itself.

#ifndef TENSORKV_TESTS_INTEGRATION_RANDOM_REQUESTS_H_
#define TENSORKV_TESTS_INTEGRATION_RANDOM_REQUESTS_H_

#include <cstdint>
#include <random>
#include <string>

#include "google/protobuf/message.h"

namespace tensorkv::testing {

struct RandomRequest {
  // "/tensorkv.v1.Data/Push".
  std::string method;
  // What the request was before its bytes were damaged, for messages.
  std::string description;
  std::string bytes;
};

// An endless sequence of requests, the same for the same seed. Not
// thread-safe.
//
// The methods take turns, every method of all services, implemented or not.
// Fields are set at random from values that are extreme, wrong or right; one
// request in three then has its bytes cut, flipped or replaced. None names a
// namespace or key that begins with "canary".
class RandomRequests {
 public:
  explicit RandomRequests(uint32_t seed) : random_(seed) {}

  RandomRequest Next();

 private:
  void Fill(google::protobuf::Message* message, int depth);
  void SetField(google::protobuf::Message* message,
                const google::protobuf::FieldDescriptor& field, int depth);
  void AddElement(google::protobuf::Message* message,
                  const google::protobuf::FieldDescriptor& field, int depth);

  int64_t Integer();
  double Real();
  std::string Text();
  std::string Payload();
  int EnumNumber(const google::protobuf::FieldDescriptor& field);
  std::string Damaged(std::string bytes);

  uint32_t Below(uint32_t bound) { return random_() % bound; }

  std::mt19937 random_;
  // How many of four fields the current request sets.
  uint32_t quarters_set_ = 0;
  uint32_t next_method_ = 0;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_INTEGRATION_RANDOM_REQUESTS_H_
