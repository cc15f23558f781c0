#include "service/store/update_pass.h"

#include <utility>

#include "base/status_macros.h"
#include "service/store/staged_tensors.h"

namespace tensorkv {
namespace {

MutableTensorView View(const UpdatePass::Item& item, DType dtype,
                       Buffer& buffer) {
  return {dtype, item.key->shape.num_elements(), buffer.mutable_data()};
}

// Where the views that a TensorUpdate refers to live.
struct Views {
  absl::InlinedVector<TensorView, 1> contributions;
  absl::InlinedVector<MutableTensorView, kMaxRuleStates> states;
};

Views ViewsOf(const UpdatePass::Item& item) {
  Views views;
  for (const Tensor& contribution : item.update.contributions) {
    views.contributions.push_back(contribution.view());
  }
  if (item.rule_state == nullptr) return views;
  for (const RefPtr<Buffer>& state : item.rule_state->states) {
    views.states.push_back(View(item, AccumulateType(item.key->dtype), *state));
  }
  return views;
}

TensorUpdate UpdateOf(const UpdatePass::Item& item, const Views& views) {
  TensorUpdate update;
  update.rule = item.rule.get();
  update.update_count = item.update_count;
  update.stored = View(item, item.key->dtype, *item.stored);
  update.value = View(item, item.key->dtype, *item.target);
  update.contributions = views.contributions;
  update.states = views.states;
  if (item.rule_state != nullptr && item.rule_state->master) {
    update.master = View(item, DType::kF32, *item.rule_state->master);
  }
  return update;
}

}  // namespace

void UpdatePass::Take(StoredKey* key) {
  Item& item = items_.emplace_back();
  item.key = RefPtr<StoredKey>(key);
  item.update = std::move(key->pending->front());
  key->pending->pop_front();
  if (key->pending->empty()) key->pending.reset();
  item.rule = key->rule;
  item.update_count = ++key->update_count;
  item.rule_state = key->rule_state;
  if (item.rule_state != nullptr) {
    item.must_fill_states =
        std::exchange(item.rule_state->states_are_new, false);
    item.must_fill_master =
        std::exchange(item.rule_state->master_is_new, false);
  }
  key->is_updating = true;
  item.adopts = CanAdopt(item);
  key->value_is_changing =
      !item.adopts && key->num_pulls_pinning == 0 && key->value->IsUnique();
  item.stored = key->value;
  if (key->value_is_changing) item.target = key->value;
}

bool UpdatePass::CanAdopt(const Item& item) const {
  const Tensors& contributions = item.update.contributions;
  return item.rule->kind() == RuleKind::kAssign && contributions.size() == 1 &&
         contributions[0].dtype() == item.key->dtype &&
         CanBecomeValue(*staged_, contributions[0]);
}

// The room that was reserved for a new value is the buffer's now.
void UpdatePass::Adopt(Item& item) {
  item.target = item.update.contributions[0].buffer();
  const size_t bytes = item.target->size_bytes();
  item.update.contributions.clear();
  const RefPtr<MemoryAccount> before =
      item.target->ExchangeAccount(item.update.room.Split(bytes).HandOver());
  before->Release(static_cast<int64_t>(bytes));
}

absl::Status UpdatePass::Run() {
  RETURN_IF_ERROR(AllocateTargets());
  RETURN_IF_ERROR(FillStates());
  RETURN_IF_ERROR(FillMasters());
  return ApplyRules();
}

absl::Status UpdatePass::AllocateTargets() {
  for (Item& item : items_) {
    if (item.target) continue;
    if (item.adopts) {
      Adopt(item);
      continue;
    }
    const uint64_t bytes = item.stored->size_bytes();
    const RefPtr<BudgetAccount> account =
        item.update.room.Split(bytes).HandOver();
    absl::StatusOr<RefPtr<Buffer>> target = backend_.Allocate(bytes, account);
    if (!target.ok()) {
      account->Release(static_cast<int64_t>(bytes));
      return target.status();
    }
    item.target = *std::move(target);
  }
  return absl::OkStatus();
}

absl::Status UpdatePass::FillStates() {
  std::vector<MutableTensorView> states;
  for (const Item& item : items_) {
    if (!item.must_fill_states) continue;
    for (const MutableTensorView& state : ViewsOf(item).states) {
      states.push_back(state);
    }
  }
  return states.empty() ? absl::OkStatus() : backend_.Zero(states);
}

absl::Status UpdatePass::FillMasters() {
  static const UpdateRule* const kAssign = new UpdateRule();
  std::vector<TensorUpdate> conversions;
  std::vector<TensorView> stored;
  stored.reserve(items_.size());  // the conversions refer to its elements
  for (const Item& item : items_) {
    if (!item.must_fill_master) continue;
    stored.push_back(View(item, item.key->dtype, *item.stored));
    TensorUpdate& conversion = conversions.emplace_back();
    conversion.rule = kAssign;
    conversion.value = View(item, DType::kF32, *item.rule_state->master);
    conversion.contributions = absl::MakeConstSpan(&stored.back(), 1);
  }
  return conversions.empty() ? absl::OkStatus() : backend_.Apply(conversions);
}

absl::Status UpdatePass::ApplyRules() {
  std::vector<Views> views;
  std::vector<TensorUpdate> updates;
  views.reserve(items_.size());  // the updates refer to its elements
  updates.reserve(items_.size());
  for (const Item& item : items_) {
    if (item.adopts) continue;
    views.push_back(ViewsOf(item));
    updates.push_back(UpdateOf(item, views.back()));
  }
  return updates.empty() ? absl::OkStatus() : backend_.Apply(updates);
}

// The rule may have changed meanwhile; what its new state took over from the
// old one must still be filled.
void UpdatePass::Undo(const Item& item) {
  StoredKey& key = *item.key;
  if (key.rule == item.rule) --key.update_count;
  if (item.rule_state == nullptr || key.rule_state == nullptr) return;
  const RuleState& old = *item.rule_state;
  RuleState& present = *key.rule_state;
  if (present.states == old.states) {
    present.states_are_new |= item.must_fill_states;
  }
  if (present.master == old.master) {
    present.master_is_new |= item.must_fill_master;
  }
}

void UpdatePass::Publish(const absl::Status& status) {
  for (Item& item : items_) {
    StoredKey& key = *item.key;
    key.is_updating = false;
    key.value_is_changing = false;
    if (status.ok()) {
      key.value = item.target;
      ++key.version;
    } else {
      Undo(item);
    }
  }
}

}  // namespace tensorkv
