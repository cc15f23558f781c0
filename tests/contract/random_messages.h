// Random messages of the contract, filled from their descriptors, for tests.

#ifndef TENSORKV_TESTS_CONTRACT_RANDOM_MESSAGES_H_
#define TENSORKV_TESTS_CONTRACT_RANDOM_MESSAGES_H_

#include <cstdint>
#include <random>
#include <string>

#include "google/protobuf/message.h"
#include "tensorkv/v1/service.pb.h"

namespace tensorkv::testing {

// Draws the same messages for the same seed: valid ones, with every field as
// the codec writes it. The store need not accept them.
class RandomMessages {
 public:
  explicit RandomMessages(uint64_t seed) : random_(seed) {}

  template <typename Proto>
  Proto Draw() {
    Proto filled;
    Fill(&filled);
    // Maps may have keys twice until they are written.
    Proto proto;
    proto.ParseFromString(filled.SerializeAsString());
    return proto;
  }

 private:
  using Message = google::protobuf::Message;
  using FieldDescriptor = google::protobuf::FieldDescriptor;

  void Fill(Message* message);
  // Sets the field, or adds one to it.
  void Put(const FieldDescriptor* field, Message* message);
  void PutMessage(const FieldDescriptor* field, Message* message);

  // Draws the weight of an entry: 0, any, or none.
  template <typename Entry>
  void DrawWeight(Entry& entry);
  // Make valid what has any values.
  void MakeValid(v1::Tensor& tensor);
  void MakeValid(v1::PushEntry& entry);
  void MakeValid(v1::PushRowsEntry& entry);
  void MakeValid(v1::PullRowsEntry& entry);
  void MakeValid(v1::InitManifest& manifest);
  void MakeValid(v1::PushManifest& manifest);
  void MakeValid(v1::PullManifest& manifest);
  template <typename Reply>
  void ClearDataIfTicket(Reply& reply);
  void MakeValid(v1::PullResponse& reply);
  void MakeValid(v1::PushPullResponse& reply);
  void MakeValid(v1::PullRowsResponse& reply);
  void MakeValid(v1::GetStateResponse& reply);
  void MakeValid(v1::KeyStatus& status);
  void MakeValid(v1::Schedule& schedule);
  void MakeValid(v1::Stripe& stripe);
  // Serializers write several entries of a map in any order.
  void MakeValid(v1::PublishAs& publish_as);
  void MakeValid(v1::ClusterPlacement& placement);
  void MakeValid(google::protobuf::Duration& duration);
  template <typename Entry>
  void MakeValidContribution(Entry& entry);
  template <typename... Types>
  void MakeValidAnyOf(Message* message);

  // Replaces the shape, and gives its number of elements.
  int64_t DrawShape(google::protobuf::RepeatedField<int64_t>* shape);
  void DrawRows(v1::Tensor* rows);
  uint64_t Number();
  std::string Text();
  std::string Bytes(int64_t size);
  // 0 to `bound` - 1.
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Half() { return Below(2) == 0; }

  std::mt19937_64 random_;
};

}  // namespace tensorkv::testing

#endif  // TENSORKV_TESTS_CONTRACT_RANDOM_MESSAGES_H_
