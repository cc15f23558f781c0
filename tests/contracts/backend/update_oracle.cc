#include "tests/contracts/backend/update_oracle.h"

#include <algorithm>
#include <cmath>

namespace tensorkv::testing {
namespace {

Estimate Exact(long double value) { return {value, std::abs(value)}; }

Estimate operator+(const Estimate& a, const Estimate& b) {
  return {a.value + b.value, a.scale + b.scale};
}
Estimate operator-(const Estimate& a, const Estimate& b) {
  return {a.value - b.value, a.scale + b.scale};
}
Estimate operator*(long double factor, const Estimate& a) {
  return {factor * a.value, std::abs(factor) * a.scale};
}

Estimate Clipped(const Hyperparameters& h, long double g) {
  const long double scaled = h.at("rescale_grad") * g;
  const long double clip = h.at("clip_gradient");
  if (clip < 0) return Exact(scaled);
  return {std::min(std::max(scaled, -clip), clip), std::abs(scaled)};
}

Estimate WithDecay(const Hyperparameters& h, const OracleInput& in) {
  return Clipped(h, in.g) + h.at("weight_decay") * Exact(in.w);
}

OracleOutput AssignUpdate(const Hyperparameters&, const OracleInput& in) {
  return {.w = Exact(in.g), .states = {}};
}

OracleOutput AccumulateUpdate(const Hyperparameters& h, const OracleInput& in) {
  return {.w = Exact(in.w) + h.at("scale") * Exact(in.g), .states = {}};
}

OracleOutput SgdUpdate(const Hyperparameters& h, const OracleInput& in) {
  const Estimate step = h.at("learning_rate") * WithDecay(h, in);
  if (h.at("momentum") == 0) return {.w = Exact(in.w) - step, .states = {}};
  const Estimate m = h.at("momentum") * Exact(in.m) - step;
  return {.w = Exact(in.w) + m, .states = {m}};
}

// The contract has lr_t computed in double, also for f64 keys.
double LearningRate(const Hyperparameters& h, uint64_t t) {
  if (h.count("correct_bias") != 0 && h.at("correct_bias") == 0) {
    return h.at("learning_rate");
  }
  const double num_updates = static_cast<double>(t);
  return h.at("learning_rate") *
         (std::sqrt(1 - std::pow(h.at("beta2"), num_updates)) /
          (1 - std::pow(h.at("beta1"), num_updates)));
}

Estimate NextMean(const Hyperparameters& h, long double m, const Estimate& g) {
  return h.at("beta1") * Exact(m) + (1 - h.at("beta1")) * g;
}

Estimate NextVariance(const Hyperparameters& h, long double v,
                      const Estimate& g) {
  const Estimate squared = {g.value * g.value, g.scale * g.scale};
  return h.at("beta2") * Exact(v) + (1 - h.at("beta2")) * squared;
}

// m / (sqrt(v) + epsilon)
Estimate Normalized(const Hyperparameters& h, const Estimate& m,
                    const Estimate& v) {
  const long double denominator = std::sqrt(v.value) + h.at("epsilon");
  if (denominator == 0) return {std::nanl(""), 0};
  // What v is off by counts relative to v.
  const long double worse = v.value > 0 ? v.scale / v.value : 1;
  return {m.value / denominator, m.scale / denominator * worse};
}

OracleOutput AdamUpdate(const Hyperparameters& h, const OracleInput& in) {
  const Estimate g = WithDecay(h, in);
  const Estimate m = NextMean(h, in.m, g);
  const Estimate v = NextVariance(h, in.v, g);
  const double rate = LearningRate(h, in.update_count);
  return {.w = Exact(in.w) - rate * Normalized(h, m, v), .states = {m, v}};
}

OracleOutput AdamWUpdate(const Hyperparameters& h, const OracleInput& in) {
  const Estimate g = Clipped(h, in.g);
  const Estimate m = NextMean(h, in.m, g);
  const Estimate v = NextVariance(h, in.v, g);
  const double rate = LearningRate(h, in.update_count);
  const Estimate decay = h.at("weight_decay") * Exact(in.w);
  return {.w = Exact(in.w) - rate * (Normalized(h, m, v) + decay),
          .states = {m, v}};
}

Hyperparameters Sgd(double momentum, double clip_gradient) {
  return {{"learning_rate", 0.25},
          {"momentum", momentum},
          {"weight_decay", 0.01},
          {"rescale_grad", 0.5},
          {"clip_gradient", clip_gradient}};
}

Hyperparameters Adam(double epsilon, double clip_gradient) {
  return {{"learning_rate", 0.05},
          {"beta1", 0.9},
          {"beta2", 0.99},
          {"epsilon", epsilon},
          {"weight_decay", 0.1},
          {"rescale_grad", 0.75},
          {"clip_gradient", clip_gradient}};
}

Hyperparameters AdamW(double correct_bias) {
  Hyperparameters h = Adam(/*epsilon=*/1e-6, /*clip_gradient=*/0.5);
  h["correct_bias"] = correct_bias;
  return h;
}

}  // namespace

const std::vector<OracleRule>& OracleRules() {
  static const auto* rules = new std::vector<OracleRule>{
      {{"assign", {}}, false, AssignUpdate},
      {{"accumulate", {{"scale", 1}}}, false, AccumulateUpdate},
      {{"accumulate", {{"scale", -3}}}, false, AccumulateUpdate},
      {{"sgd", Sgd(0, -1)}, true, SgdUpdate},
      {{"sgd", Sgd(0, 0.25)}, true, SgdUpdate},
      {{"sgd", Sgd(0.9, -1)}, true, SgdUpdate},
      {{"sgd", Sgd(0.9, 0.25), /*keep_master=*/false}, true, SgdUpdate},
      {{"adam", Adam(1e-8, -1)}, true, AdamUpdate},
      {{"adam", Adam(1e-3, 0.5), /*keep_master=*/false}, true, AdamUpdate},
      {{"adamw", AdamW(/*correct_bias=*/1)}, true, AdamWUpdate},
      {{"adamw", AdamW(/*correct_bias=*/0)}, true, AdamWUpdate},
  };
  return *rules;
}

}  // namespace tensorkv::testing
