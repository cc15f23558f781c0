#include "tests/contracts/backend/update_oracle.h"

#include <algorithm>
#include <cmath>

namespace tensorkv::testing {
namespace {

using H = Hyperparameters;
using Real = long double;

Real Clip(Real x, Real bound) {
  return bound < 0 ? x : std::min(std::max(x, -bound), bound);
}
Real Sign(Real x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

// G
Real Scaled(const H& h, const OracleElement& e) {
  return Clip(h.at("rescale_grad") * e.g, h.at("clip_gradient"));
}
// G + wd w
Real Decayed(const H& h, const OracleElement& e) {
  return Scaled(h, e) + h.at("weight_decay") * e.w;
}

// 1 - beta^t
Real Rest(Real beta, uint64_t t) { return 1 - std::pow(beta, Real(t)); }

Real Mix(Real beta, Real old, Real add) {
  return beta * old + (1 - beta) * add;
}

// Adam's moments in the first two states.
void UpdateMoments(const H& h, Real g, OracleElement& e) {
  e.states[0] = Mix(h.at("beta1"), e.states[0], g);
  e.states[1] = Mix(h.at("beta2"), e.states[1], g * g);
}
// lr_t
Real AdamRate(const H& h, uint64_t t) {
  return h.at("learning_rate") * std::sqrt(Rest(h.at("beta2"), t)) /
         Rest(h.at("beta1"), t);
}

void Assign(const H&, uint64_t, OracleElement& e) { e.w = e.g; }

void Accumulate(const H& h, uint64_t, OracleElement& e) {
  e.w += h.at("scale") * e.g;
}

void Average(const H& h, uint64_t t, OracleElement& e) {
  const Real before = h.at("initial_weight") + (t - 1) * h.at("weight");
  const Real weighted = h.at("weight") * h.at("rescale_grad") * e.g;
  e.w = (before * e.w + weighted) / (before + h.at("weight"));
}

void Test(const H& h, uint64_t, OracleElement& e) {
  e.w -= h.at("learning_rate") * Decayed(h, e);
}

void Sgd(const H& h, uint64_t, OracleElement& e) {
  const Real step = h.at("learning_rate") * Decayed(h, e);
  if (e.states.empty()) {
    e.w -= step;
    return;
  }
  e.states[0] = h.at("momentum") * e.states[0] - step;
  e.w += e.states[0];
}

void Nag(const H& h, uint64_t, OracleElement& e) {
  const Real step = h.at("learning_rate") * Decayed(h, e);
  e.states[0] = h.at("momentum") * e.states[0] - step;
  e.w += h.at("momentum") * e.states[0] - step;
}

void Adam(const H& h, uint64_t t, OracleElement& e) {
  UpdateMoments(h, Decayed(h, e), e);
  e.w -=
      AdamRate(h, t) * e.states[0] / (std::sqrt(e.states[1]) + h.at("epsilon"));
}

void AmsGrad(const H& h, uint64_t t, OracleElement& e) {
  UpdateMoments(h, Decayed(h, e), e);
  e.states[2] = std::max(e.states[2], e.states[1]);
  e.w -=
      AdamRate(h, t) * e.states[0] / (std::sqrt(e.states[2]) + h.at("epsilon"));
}

void AdamW(const H& h, uint64_t t, OracleElement& e) {
  UpdateMoments(h, Scaled(h, e), e);
  const bool corrects = h.at("correct_bias") != 0;
  const Real rate = h.at("learning_rate");
  if (h.at("mxnet_form") != 0) {
    e.w -= (corrects ? AdamRate(h, t) : rate) *
           (e.states[0] / (std::sqrt(e.states[1]) + h.at("epsilon")) +
            h.at("weight_decay") * e.w);
    return;
  }
  const Real mean = e.states[0] / (corrects ? Rest(h.at("beta1"), t) : 1);
  const Real variance = e.states[1] / (corrects ? Rest(h.at("beta2"), t) : 1);
  e.w -= rate * h.at("weight_decay") * e.w;
  e.w -= rate * mean / (std::sqrt(variance) + h.at("epsilon"));
}

void Adamax(const H& h, uint64_t t, OracleElement& e) {
  const Real g = Decayed(h, e);
  e.states[0] = Mix(h.at("beta1"), e.states[0], g);
  e.states[1] = std::max(h.at("beta2") * e.states[1], std::abs(g));
  e.w -= h.at("learning_rate") / Rest(h.at("beta1"), t) * e.states[0] /
         (e.states[1] + h.at("epsilon"));
}

void Nadam(const H& h, uint64_t t, OracleElement& e) {
  const auto momentum = [&](uint64_t i) {
    return h.at("beta1") *
           (1 - 0.5L * std::pow(0.96L, i * Real(h.at("momentum_decay"))));
  };
  Real product = 1;
  for (uint64_t i = 1; i <= t; ++i) product *= momentum(i);
  const Real g = Decayed(h, e);
  UpdateMoments(h, g, e);
  const Real mean =
      (1 - momentum(t)) * g / (1 - product) +
      momentum(t + 1) * e.states[0] / (1 - product * momentum(t + 1));
  e.w -= h.at("learning_rate") * mean /
         (std::sqrt(e.states[1] / Rest(h.at("beta2"), t)) + h.at("epsilon"));
}

void AdaBelief(const H& h, uint64_t t, OracleElement& e) {
  const Real g = Clip(h.at("rescale_grad") * e.g + h.at("weight_decay") * e.w,
                      h.at("clip_gradient"));
  e.states[0] = Mix(h.at("beta1"), e.states[0], g);
  const Real surprise = g - e.states[0];
  e.states[1] =
      Mix(h.at("beta2"), e.states[1], surprise * surprise) + h.at("epsilon");
  e.w -=
      AdamRate(h, t) * e.states[0] / (std::sqrt(e.states[1]) + h.at("epsilon"));
}

void AdaGrad(const H& h, uint64_t, OracleElement& e) {
  const Real g = Decayed(h, e);
  e.states[0] += g * g;
  e.w -= h.at("learning_rate") * g / (std::sqrt(e.states[0]) + h.at("epsilon"));
}

void RmsProp(const H& h, uint64_t, OracleElement& e) {
  const Real g = Decayed(h, e);
  e.states[0] = Mix(h.at("rho"), e.states[0], g * g);
  if (h.at("centered") == 0) {
    e.w -=
        h.at("learning_rate") * g / (std::sqrt(e.states[0]) + h.at("epsilon"));
  } else {
    e.states[1] = Mix(h.at("rho"), e.states[1], g);
    const Real spread = e.states[0] - e.states[1] * e.states[1];
    e.states[2] =
        h.at("momentum") * e.states[2] -
        h.at("learning_rate") * g / std::sqrt(spread + h.at("epsilon"));
    e.w += e.states[2];
  }
  e.w = Clip(e.w, h.at("clip_weights"));
}

void AdaDelta(const H& h, uint64_t, OracleElement& e) {
  const Real g = Decayed(h, e);
  e.states[0] = Mix(h.at("rho"), e.states[0], g * g);
  const Real step = std::sqrt(e.states[1] + h.at("epsilon")) /
                    std::sqrt(e.states[0] + h.at("epsilon")) * g;
  e.states[1] = Mix(h.at("rho"), e.states[1], step * step);
  e.w -= h.at("learning_rate") * step;
}

void Ftrl(const H& h, uint64_t, OracleElement& e) {
  const Real g = Scaled(h, e);
  const Real rate = h.at("learning_rate");
  const Real before = e.states[1];
  e.states[1] += g * g;
  e.states[0] += g - (std::sqrt(e.states[1]) - std::sqrt(before)) * e.w / rate;
  e.w = -Sign(e.states[0]) *
        std::max(std::abs(e.states[0]) - h.at("lambda1"), Real(0)) /
        ((h.at("beta") + std::sqrt(e.states[1])) / rate + h.at("weight_decay"));
}

void Ftml(const H& h, uint64_t t, OracleElement& e) {
  const Real g = Decayed(h, e);
  e.states[0] = Mix(h.at("beta2"), e.states[0], g * g);
  const Real d =
      Rest(h.at("beta1"), t) / h.at("learning_rate") *
      (std::sqrt(e.states[0] / Rest(h.at("beta2"), t)) + h.at("epsilon"));
  e.states[2] = Mix(h.at("beta1"), e.states[2], g) -
                (d - h.at("beta1") * e.states[1]) * e.w;
  e.states[1] = d;
  e.w = -e.states[2] / d;
}

void Signum(const H& h, uint64_t, OracleElement& e) {
  e.states[0] = h.at("momentum") * e.states[0] -
                (1 - Real(h.at("momentum"))) * Decayed(h, e);
  e.w = (1 - Real(h.at("learning_rate")) * h.at("wd_lh")) * e.w +
        h.at("learning_rate") * Sign(e.states[0]);
}

void SignSgd(const H& h, uint64_t, OracleElement& e) {
  const Real decay = Real(h.at("weight_decay")) + h.at("wd_lh");
  e.w = (1 - h.at("learning_rate") * decay) * e.w -
        h.at("learning_rate") * Sign(e.g);
}

void DcAsgd(const H& h, uint64_t t, OracleElement& e) {
  const Real g = Decayed(h, e);
  const Real previous = t == 1 ? e.w : e.states[1];
  e.states[0] =
      h.at("momentum") * e.states[0] -
      h.at("learning_rate") * (g + h.at("lambda") * g * g * (e.w - previous));
  e.states[1] = e.w;
  e.w += e.states[0];
}

void Lion(const H& h, uint64_t, OracleElement& e) {
  const Real g = Scaled(h, e);
  const Real direction = Sign(Mix(h.at("beta1"), e.states[0], g));
  e.w -= h.at("learning_rate") * (direction + h.at("weight_decay") * e.w);
  e.states[0] = Mix(h.at("beta2"), e.states[0], g);
}

// What all optimizers have, and what one has besides.
H With(double learning_rate, double clip_gradient, H own) {
  own.insert({{"learning_rate", learning_rate},
              {"weight_decay", 0.01},
              {"rescale_grad", 0.5},
              {"clip_gradient", clip_gradient}});
  return own;
}

H Betas(double epsilon) {
  return {{"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", epsilon}};
}
H AdamWOwn(double correct_bias, double mxnet_form) {
  H h = Betas(1e-6);
  h.insert({{"correct_bias", correct_bias}, {"mxnet_form", mxnet_form}});
  return h;
}
H NadamOwn(double momentum_decay) {
  H h = Betas(1e-6);
  h["momentum_decay"] = momentum_decay;
  return h;
}
H RmsPropOwn(double centered, double clip_weights) {
  return {{"centered", centered},
          {"rho", 0.9},
          {"momentum", 0.8},
          {"epsilon", 1e-4},
          {"clip_weights", clip_weights}};
}

}  // namespace

OracleElement OracleRule::Update(const OracleElement& before,
                                 uint64_t t) const {
  OracleElement element = before;
  update(spec.hyperparameters, t, element);
  return element;
}

OracleTolerance OracleRule::ToleranceOf(const OracleElement& before, uint64_t t,
                                        long double precision) const {
  const OracleElement exact = Update(before, t);
  OracleTolerance tolerance = {.states = exact.states};
  tolerance.w = precision * std::abs(exact.w);
  for (Real& state : tolerance.states) state = precision * std::abs(state);
  const auto add = [&](const OracleElement& changed) {
    tolerance.w += std::abs(changed.w - exact.w);
    for (size_t i = 0; i < exact.states.size(); ++i) {
      tolerance.states[i] += std::abs(changed.states[i] - exact.states[i]);
    }
  };
  OracleElement input = before;
  std::vector<Real*> inputs = {&input.w, &input.g};
  for (Real& state : input.states) inputs.push_back(&state);
  for (Real* value : inputs) {
    const Real kept = *value;
    *value *= 1 + precision;
    add(Update(input, t));
    *value = kept;
  }
  Hyperparameters h = spec.hyperparameters;
  for (auto& [name, value] : h) {
    const double kept = value;
    value *= static_cast<double>(1 + precision);
    OracleElement changed = before;
    update(h, t, changed);
    add(changed);
    value = kept;
  }
  return tolerance;
}

const std::vector<OracleRule>& OracleRules() {
  static const auto* rules = new std::vector<OracleRule>{
      {{"assign", {}}, "", Assign, false},
      {{"accumulate", {{"scale", 1}}}, "", Accumulate, false},
      {{"accumulate", {{"scale", -3}}}, "", Accumulate, false},
      {{"average",
        {{"weight", 2}, {"initial_weight", 3}, {"rescale_grad", 0.5}}},
       "",
       Average},
      {{"test", With(0.01, 0.4, {})}, "", Test},
      {{"sgd", With(0.25, -1, {{"momentum", 0}})}, "", Sgd},
      {{"sgd", With(0.25, 0.25, {{"momentum", 0}})}, "", Sgd},
      {{"sgd", With(0.25, -1, {{"momentum", 0.9}})}, "~", Sgd},
      {{"sgd", With(0.25, 0.25, {{"momentum", 0.9}}), false}, "~", Sgd},
      {{"nag", With(0.1, 0.4, {{"momentum", 0.9}})}, "~", Nag},
      {{"diloco", With(0.7, -1, {{"momentum", 0.9}})}, "~", Nag},
      {{"adam", With(0.05, -1, Betas(1e-8))}, "~+", Adam},
      {{"adam", With(0.05, 0.4, Betas(1e-3)), false}, "~+", Adam},
      {{"amsgrad", With(0.05, 0.4, Betas(1e-6))}, "~++", AmsGrad},
      {{"adamw", With(0.05, -1, AdamWOwn(1, 0))}, "~+", AdamW},
      {{"adamw", With(0.05, 0.4, AdamWOwn(0, 0))}, "~+", AdamW},
      {{"adamw", With(0.05, 0.4, AdamWOwn(1, 1))}, "~+", AdamW},
      {{"adamw", With(0.05, 0.4, AdamWOwn(0, 1))}, "~+", AdamW},
      {{"adamax", With(0.05, 0.4, Betas(1e-8))}, "~+", Adamax},
      {{"nadam", With(0.05, 0.4, NadamOwn(0.5))}, "~+", Nadam},
      {{"adabelief", With(0.05, 0.4, Betas(1e-4))}, "~+", AdaBelief},
      {{"adagrad", With(0.05, 0.4, {{"epsilon", 1e-6}})}, "+", AdaGrad},
      {{"rmsprop", With(0.05, 0.4, RmsPropOwn(0, -1))}, "+", RmsProp},
      {{"rmsprop", With(0.05, 0.4, RmsPropOwn(1, 1.5))}, "+~~", RmsProp},
      {{"adadelta", With(0.8, 0.4, {{"rho", 0.9}, {"epsilon", 1e-4}})},
       "++",
       AdaDelta},
      {{"ftrl", With(0.3, 0.4, {{"lambda1", 0.01}, {"beta", 1}})}, "~+", Ftrl},
      {{"ftml", With(0.05, 0.4, Betas(1e-4))}, "++~", Ftml},
      {{"signum", With(0.05, 0.4, {{"momentum", 0.9}, {"wd_lh", 0.1}})},
       "~",
       Signum},
      {{"signsgd", With(0.05, 0.4, {{"wd_lh", 0.1}})}, "", SignSgd},
      {{"dcasgd", With(0.1, 0.4, {{"momentum", 0.8}, {"lambda", 0.5}})},
       "~~",
       DcAsgd},
      {{"lion", With(0.05, 0.4, {{"beta1", 0.9}, {"beta2", 0.99}})}, "~", Lion},
  };
  return *rules;
}

}  // namespace tensorkv::testing
