#include "tests/contracts/backend/invalid_updates.h"

#include <cmath>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/testing/device_tensors.h"
#include "tests/testing/status_matchers.h"

namespace tensorkv::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

Tensor Filled(Backend& backend, double element) {
  return *ToDevice(backend, *Tensor::Filled(DType::kF32, {3}, element));
}

// SGD with momentum on f32[3], in place.
struct GoodUpdate {
  explicit GoodUpdate(Backend& backend)
      : stored(Filled(backend, 1)),
        gradient(Filled(backend, 4)),
        momentum(Filled(backend, 0)),
        contributions({gradient.view()}),
        states({momentum.mutable_view()}),
        update({.rule = &sgd,
                .stored = stored.view(),
                .value = stored.mutable_view()}) {}

  const UpdateRule sgd = *UpdateRule::Create({"sgd", {{"momentum", 0.5}}});
  const UpdateRule assign;
  const double half[1] = {0.5};
  const double nothing[1] = {0};
  ContributionWeights weights = {.each = half, .total = 2};
  const Packing packing = {
      .kind = PackingKind::kTwoBit, .scale = 1, .num_elements = 4};
  Tensor stored;
  Tensor gradient;
  Tensor momentum;
  // What the update gets when they are spoilt.
  std::vector<TensorView> contributions;
  std::vector<MutableTensorView> states;
  std::vector<const Packing*> packings;
  TensorUpdate update;
};

struct Mistake {
  void (*spoil)(GoodUpdate& good);
  const char* message;
};

constexpr Mistake kMistakes[] = {
    {[](GoodUpdate& g) { g.contributions.clear(); },
     "contributions: expected at least one, got none"},
    {[](GoodUpdate& g) { g.update.rule = nullptr; },
     "rule: expected one, got none"},
    {[](GoodUpdate& g) { g.update.update_count = 0; },
     "update_count: expected at least 1, got 0"},
    {[](GoodUpdate& g) { g.update.stored.data = nullptr; },
     "stored: expected elements, got no memory"},
    {[](GoodUpdate& g) {
       g.contributions.push_back(g.contributions[0]);
       g.contributions[1].num_elements = 2;
     },
     "contribution 1: expected 3 elements, got 2"},
    {[](GoodUpdate& g) { g.states[0].num_elements = 4; },
     "state 0: expected 3 elements, got 4"},
    {[](GoodUpdate& g) { g.update.stored.num_elements = 1; },
     "stored: expected 3 elements, got 1"},
    {[](GoodUpdate& g) { g.contributions[0].dtype = DType::kI32; },
     "contribution 0: expected a float dtype, got i32"},
    {[](GoodUpdate& g) { g.states[0].dtype = DType::kF64; },
     "state 0: expected f32, got f64"},
    {[](GoodUpdate& g) { g.update.stored.dtype = DType::kI32; },
     "stored: expected f32, got i32"},
    {[](GoodUpdate& g) { g.update.value.dtype = DType::kI32; },
     "sgd: expected a key of a float dtype, got i32"},
    {[](GoodUpdate& g) {
       g.update.rule = &g.assign;
       g.states.clear();
       g.update.value.dtype = DType::kI32;
     },
     "contribution 0: expected i32, got f32"},
    {[](GoodUpdate& g) { g.states.clear(); }, "states: expected 1, got 0"},
    {[](GoodUpdate& g) { g.update.master = g.momentum.mutable_view(); },
     "master: expected none, got f32"},
    {[](GoodUpdate& g) {
       g.update.stored.dtype = g.update.value.dtype = DType::kBF16;
     },
     "master: expected 3 elements, got 0"},
    {[](GoodUpdate& g) { g.update.num_averaged = 2; },
     "num_averaged: expected 1, or fewer"},
    {[](GoodUpdate& g) {
       g.contributions.push_back(g.contributions[0]);
       g.update.num_averaged = 1;
     },
     "num_averaged: expected 2, or fewer"},
    {[](GoodUpdate& g) {
       g.update.rule = &g.assign;
       g.states.clear();
       g.update.stored = {};
       g.contributions[0].dtype = g.update.value.dtype = DType::kI32;
       g.update.num_averaged = 1;
     },
     "num_averaged: expected a float dtype, got i32"},
    {[](GoodUpdate& g) {
       g.update.num_averaged = 1;
       g.update.weights = &g.weights;
     },
     "weights: expected no num_averaged, got 1"},
    {[](GoodUpdate& g) {
       g.contributions.push_back(g.contributions[0]);
       g.update.weights = &g.weights;
     },
     "weights: expected 2, got 1"},
    {[](GoodUpdate& g) {
       g.weights.each = g.nothing;
       g.update.weights = &g.weights;
     },
     "weights: expected positive ones, got others"},
    // Without states, as most updates are.
    {[](GoodUpdate& g) {
       g.update.rule = &g.assign;
       g.states.clear();
       g.weights.total = NAN;
       g.update.weights = &g.weights;
     },
     "weights: expected a total, got nan"},
    {[](GoodUpdate& g) {
       g.packings.push_back(&g.packing);
       g.update.first_element = 2;
     },
     "contribution 0: expected 3 elements from 2, got 4"}};

}  // namespace

void ExpectInvalidUpdatesAreRefused(Backend& backend) {
  for (const auto& [spoil, message] : kMistakes) {
    GoodUpdate good(backend);
    spoil(good);
    good.update.contributions = good.contributions;
    good.update.states = absl::MakeSpan(good.states);
    good.update.packings = good.packings;
    Tensor target = Filled(backend, 8);
    const Tensor source = Filled(backend, 7);
    const TensorView contribution = source.view();
    const TensorUpdate first = {.rule = &good.assign,
                                .contributions = {&contribution, 1},
                                .value = target.mutable_view()};
    const std::vector<TensorUpdate> batch = {first, good.update};
    const float nine = 9;

    EXPECT_THAT(backend.Run({.uploads = {{reinterpret_cast<const char*>(&nine),
                                          target.mutable_data(), sizeof(nine)}},
                             .updates = batch}),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr(std::string("update 1: ") + message)));

    EXPECT_THAT(ToHost(backend, target)->elements<float>(), Each(8));
    EXPECT_THAT(ToHost(backend, good.stored)->elements<float>(), Each(1));
  }
}

}  // namespace tensorkv::testing
