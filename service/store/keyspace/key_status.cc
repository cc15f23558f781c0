#include "service/store/keyspace/key_status.h"

#include <utility>

#include "contract/proto_codec.h"
#include "service/store/keyspace/rules/state_access.h"

namespace tensorkv {
namespace {

void SetStatus(KeyMetadata& key, KeyStatus& status) {
  const absl::Span<const int64_t> dimensions = key.shape.dimensions();
  status.set_key(std::move(key.name));
  status.set_dtype(static_cast<v1::DType>(key.dtype));
  status.mutable_shape()->Add(dimensions.begin(), dimensions.end());
  status.set_version(key.version);
  status.set_value_bytes(key.value_bytes);
  if (key.digest) status.set_digest(*key.digest);
  if (!key.rule) return;
  status.set_state_bytes(key.state_bytes);
  ToProto(key.rule->spec(), status.mutable_rule());
  status.set_update_count(key.update_count);
  ToProto(key.multipliers, status.mutable_multipliers());
  const RuleParameters next =
      key.rule->ParametersAt(key.update_count + 1, key.multipliers, /*seed=*/0);
  status.set_learning_rate(next.learning_rate);
  status.set_weight_decay(next.weight_decay);
  for (std::string& state : StateNames(*key.rule, key.dtype)) {
    status.add_states(std::move(state));
  }
}

}  // namespace

KeyMetadata MetadataOf(const StoredKey& key) {
  return {.name = std::string(key.name()),
          .dtype = key.dtype(),
          .shape = key.shape(),
          .version = key.version,
          .value_bytes = key.value_bytes(),
          .state_bytes = key.rule_state ? key.rule_state->size_bytes() : 0,
          .update_count = key.num_applied(),
          .multipliers =
              key.multipliers ? Multipliers(*key.multipliers) : Multipliers(),
          .rule = key.rule};
}

uint64_t StatusBytes(const KeyMetadata& key) {
  constexpr uint64_t kStatusBytes = 128;
  constexpr uint64_t kHyperparameterBytes = 32;
  const uint64_t bytes = kStatusBytes + key.name.size();
  if (!key.rule) return bytes;
  const RuleSpec& rule = key.rule->spec();
  return bytes + rule.expression.size() +
         rule.schedule.steps.size() * sizeof(uint64_t) +
         (rule.hyperparameters.size() + rule.schedule.arguments.size()) *
             kHyperparameterBytes;
}

void AddStatuses(std::vector<KeyMetadata> keys,
                 google::protobuf::RepeatedPtrField<KeyStatus>& statuses) {
  statuses.Reserve(static_cast<int>(keys.size()));
  for (KeyMetadata& key : keys) SetStatus(key, *statuses.Add());
}

}  // namespace tensorkv
