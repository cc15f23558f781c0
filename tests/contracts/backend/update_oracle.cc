#include "tests/contracts/backend/update_oracle.h"

#include <algorithm>
#include <cmath>
#include <utility>

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

void RAdam(const H& h, uint64_t t, OracleElement& e) {
  UpdateMoments(h, Decayed(h, e), e);
  const Real beta2 = h.at("beta2");
  const Real longest = 2 / (1 - beta2) - 1;
  const Real power = std::pow(beta2, Real(t));
  const Real length = longest - 2 * t * power / (1 - power);
  if (length <= 5) {
    e.w -= h.at("learning_rate") / Rest(h.at("beta1"), t) * e.states[0];
    return;
  }
  const Real rectification =
      std::sqrt((length - 4) / (longest - 4) * (length - 2) / (longest - 2) *
                longest / length);
  e.w -= AdamRate(h, t) * rectification * e.states[0] /
         (std::sqrt(e.states[1]) + h.at("epsilon"));
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

void Yogi(const H& h, uint64_t, OracleElement& e) {
  const Real g = Decayed(h, e);
  const Real square = g * g;
  const Real& v = e.states[1];
  const Real sign = v > square ? 1 : v < square ? -1 : 0;
  e.states[0] = Mix(h.at("beta1"), e.states[0], g);
  e.states[1] -= (1 - h.at("beta2")) * square * sign;
  e.w -= h.at("learning_rate") * e.states[0] /
         (std::sqrt(e.states[1]) + h.at("epsilon"));
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
    const Real spread =
        std::max(e.states[0] - e.states[1] * e.states[1], Real(0));
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

void DcAsgd(const H& h, uint64_t, OracleElement& e) {
  const Real g = Decayed(h, e);
  e.states[0] =
      h.at("momentum") * e.states[0] -
      h.at("learning_rate") * (g + h.at("lambda") * g * g * e.states[1]);
  e.states[1] = e.states[0];
  e.w += e.states[0];
}

void Lion(const H& h, uint64_t, OracleElement& e) {
  const Real g = Scaled(h, e);
  const Real direction = Sign(Mix(h.at("beta1"), e.states[0], g));
  e.w -= h.at("learning_rate") * (direction + h.at("weight_decay") * e.w);
  e.states[0] = Mix(h.at("beta2"), e.states[0], g);
}

// The root of the sum of the squares of what `of` gives for each element.
template <typename Of>
Real Norm(const OracleElement* elements, size_t count, Of of) {
  Real sum = 0;
  for (size_t i = 0; i < count; ++i) {
    const Real x = of(elements[i]);
    sum += x * x;
  }
  return std::sqrt(sum);
}

// |w| within the bounds, over |u|.
double Ratio(const H& h, Real w_norm, Real u_norm) {
  if (h.at("lower_bound") >= 0) {
    w_norm = std::max(w_norm, Real(h.at("lower_bound")));
  }
  if (h.at("upper_bound") >= 0) {
    w_norm = std::min(w_norm, Real(h.at("upper_bound")));
  }
  return w_norm == 0 || u_norm == 0 ? 1 : double(w_norm / u_norm);
}

void LarsSums(const OracleElement* elements, size_t count, uint64_t, H& h) {
  const Real w = Norm(elements, count, [](const auto& e) { return e.w; });
  const Real g = Norm(elements, count, [&](const auto& e) {
    return h.at("rescale_grad") * e.g;
  });
  h["ratio"] = w == 0 || g == 0
                   ? 1
                   : double(h.at("eta") * w /
                            (g + h.at("weight_decay") * w + h.at("epsilon")));
}

void Lars(const H& h, uint64_t, OracleElement& e) {
  e.states[0] = h.at("momentum") * e.states[0] -
                h.at("learning_rate") * h.at("ratio") * Decayed(h, e);
  e.w += e.states[0];
}

// u; moves the moments on.
Real LambStep(const H& h, uint64_t t, OracleElement& e) {
  UpdateMoments(h, Scaled(h, e), e);
  const bool corrects = h.at("bias_correction") != 0;
  const Real mean = e.states[0] / (corrects ? Rest(h.at("beta1"), t) : 1);
  const Real variance = e.states[1] / (corrects ? Rest(h.at("beta2"), t) : 1);
  return mean / (std::sqrt(variance) + h.at("epsilon")) +
         h.at("weight_decay") * e.w;
}

void LambSums(const OracleElement* elements, size_t count, uint64_t t, H& h) {
  const Real w = Norm(elements, count, [](const auto& e) { return e.w; });
  const Real u =
      Norm(elements, count, [&](OracleElement e) { return LambStep(h, t, e); });
  h["ratio"] = Ratio(h, w, u);
}

void Lamb(const H& h, uint64_t t, OracleElement& e) {
  const Real step = LambStep(h, t, e);
  e.w -= h.at("learning_rate") * h.at("ratio") * step;
}

// The two directions; moves the moments on.
std::pair<Real, Real> LansSteps(const H& h, uint64_t t, OracleElement& e) {
  const Real g =
      Clip(h.at("rescale_grad") * e.g / h.at("norm"), h.at("clip_gradient"));
  UpdateMoments(h, g, e);
  const Real root =
      std::sqrt(e.states[1] / Rest(h.at("beta2"), t)) + h.at("epsilon");
  const Real decay = h.at("weight_decay") * e.w;
  return {e.states[0] / Rest(h.at("beta1"), t) / root + decay,
          g / root + decay};
}

void LansSums(const OracleElement* elements, size_t count, uint64_t t, H& h) {
  const Real g = Norm(elements, count, [&](const auto& e) {
    return h.at("rescale_grad") * e.g;
  });
  h["norm"] = g == 0 ? 1 : double(g);
  const Real w = Norm(elements, count, [](const auto& e) { return e.w; });
  h["mean_ratio"] = Ratio(h, w, Norm(elements, count, [&](OracleElement e) {
                            return LansSteps(h, t, e).first;
                          }));
  h["gradient_ratio"] = Ratio(h, w, Norm(elements, count, [&](OracleElement e) {
                                return LansSteps(h, t, e).second;
                              }));
}

void Lans(const H& h, uint64_t t, OracleElement& e) {
  const auto [mean, gradient] = LansSteps(h, t, e);
  e.w -= h.at("learning_rate") *
         (h.at("beta1") * h.at("mean_ratio") * mean +
          (1 - Real(h.at("beta1"))) * h.at("gradient_ratio") * gradient);
}

void GroupAdaGradSums(const OracleElement* elements, size_t count, uint64_t,
                      H& h) {
  const Real norm =
      Norm(elements, count, [&](const auto& e) { return Decayed(h, e); });
  h["mean_square"] = double(norm * norm / count);
}

void GroupAdaGrad(const H& h, uint64_t, OracleElement& e) {
  const Real g = Decayed(h, e);
  e.states[0] += h.at("mean_square");
  e.w -= h.at("learning_rate") * g / (std::sqrt(e.states[0]) + h.at("epsilon"));
}

void Doubled(const H&, uint64_t, OracleElement& e) { e.w += 2 * e.g; }

void Momentum(const H& h, uint64_t, OracleElement& e) {
  e.states[0] = h.at("beta") * e.states[0] + e.g;
  e.w -= h.at("learning_rate") * e.states[0];
}

constexpr char kAdamText[] =
    "state mean, variance\n"
    "g = clip(rescale_grad*grad, -clip_gradient, clip_gradient)"
    " + weight_decay*stored\n"
    "mean = beta1*mean + (1 - beta1)*g\n"
    "variance = beta2*variance + (1 - beta2)*(g*g)\n"
    "rate = learning_rate * sqrt(1 - pow(beta2, step))"
    " / (1 - pow(beta1, step))\n"
    "stored -= rate * mean / (sqrt(variance) + epsilon)";

// Every function, each where it is smooth.
constexpr char kFunctionsText[] =
    "state seen, least, most\n"
    "size = abs(stored) + abs(grad) + 1\n"
    "seen = log(size) + exp(-size) + pow(size, power) + rsqrt(size)\n"
    "least = min(least, grad)\n"
    "most = max(most, select(grad > bound, grad, -grad))\n"
    "stored = sign(stored) * sqrt(size) * clip(seen, 1, step)";

void Functions(const H& h, uint64_t t, OracleElement& e) {
  const Real size = std::abs(e.w) + std::abs(e.g) + 1;
  e.states[0] = std::log(size) + std::exp(-size) +
                std::pow(size, Real(h.at("power"))) + 1 / std::sqrt(size);
  e.states[1] = std::min(e.states[1], e.g);
  e.states[2] = std::max(e.states[2], e.g > h.at("bound") ? e.g : -e.g);
  e.w = Sign(e.w) * std::sqrt(size) *
        std::min(std::max(e.states[0], Real(1)), Real(t));
}

RuleSpec Expression(const char* text, H hyperparameters) {
  return {.name = "expression",
          .hyperparameters = std::move(hyperparameters),
          .expression = text};
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
H LambOwn(double bias_correction, double lower_bound, double upper_bound) {
  H h = Betas(1e-6);
  h.insert({{"lower_bound", lower_bound}, {"upper_bound", upper_bound}});
  if (bias_correction >= 0) h["bias_correction"] = bias_correction;
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

OracleRule OracleRule::WithSums(const std::vector<OracleElement>& elements,
                                uint64_t t) const {
  OracleRule rule = *this;
  if (add_sums != nullptr) {
    add_sums(elements.data(), elements.size(), t, rule.spec.hyperparameters);
  }
  return rule;
}

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
  // What cancels on the way may be as large as what came in.
  Real largest = std::max(std::abs(before.w), std::abs(before.g));
  for (const Real state : before.states) {
    largest = std::max(largest, std::abs(state));
  }
  tolerance.w = precision * std::max(std::abs(exact.w), largest);
  for (Real& state : tolerance.states) {
    state = precision * std::max(std::abs(state), largest);
  }
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

namespace {

std::vector<OracleRule> RulesOfElements() {
  return {
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
      {{"radam", With(0.05, 0.4, Betas(1e-4))}, "~+", RAdam},
      {{"adabelief", With(0.05, 0.4, Betas(1e-4))}, "~+", AdaBelief},
      {{"yogi", With(0.05, 0.4, Betas(1e-3))}, "~+", Yogi},
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
}

std::vector<OracleRule> RulesWithSums() {
  return {
      {{"groupadagrad", With(0.05, 0.4, {{"epsilon", 1e-6}})},
       "+",
       GroupAdaGrad,
       true,
       GroupAdaGradSums},
      {{"lars",
        With(0.5, 0.4, {{"momentum", 0.9}, {"eta", 0.1}, {"epsilon", 1e-8}})},
       "~",
       Lars,
       true,
       LarsSums},
      {{"lamb", With(0.05, 0.4, LambOwn(1, -1, -1))},
       "~+",
       Lamb,
       true,
       LambSums},
      {{"lamb", With(0.05, -1, LambOwn(0, 0.5, 3))},
       "~+",
       Lamb,
       true,
       LambSums},
      {{"lans", With(0.05, -1, LambOwn(-1, -1, -1))},
       "~+",
       Lans,
       true,
       LansSums},
      {{"lans", With(0.05, 0.1, LambOwn(-1, 1, 2))},
       "~+",
       Lans,
       true,
       LansSums},
  };
}

std::vector<OracleRule> Expressions() {
  return {
      {Expression("stored += input * 2", {}), "", Doubled},
      {Expression("state m; m = beta*m + grad; stored -= learning_rate*m",
                  {{"beta", 0.9}, {"learning_rate", 0.1}}),
       "~", Momentum},
      {Expression(kAdamText, With(0.05, 0.4, Betas(1e-6))), "~+", Adam},
      {Expression(kFunctionsText, {{"bound", 0.3}, {"power", -0.7}}), "~~~",
       Functions},
  };
}

}  // namespace

const std::vector<OracleRule>& OracleRules() {
  static const auto* const all = [] {
    auto* const rules = new std::vector<OracleRule>(RulesOfElements());
    for (const auto& more : {RulesWithSums(), Expressions()}) {
      rules->insert(rules->end(), more.begin(), more.end());
    }
    return rules;
  }();
  return *all;
}

}  // namespace tensorkv::testing
