// Every rule. A new one is a functor in kernels/ops, its include and row here,
// a row in tests/contracts/backend/update_oracle.cc, and what it computes in
// proto/tensorkv/v1/rule.proto. No Abseil: CUDA sources include this too.

#ifndef TENSORKV_KERNELS_RULE_TABLE_H_
#define TENSORKV_KERNELS_RULE_TABLE_H_

#include <stdint.h>

#include "kernels/expression/bytecode.h"
#include "kernels/ops/accumulate.h"
#include "kernels/ops/adabelief.h"
#include "kernels/ops/adadelta.h"
#include "kernels/ops/adafactor.h"
#include "kernels/ops/adagrad.h"
#include "kernels/ops/adam.h"
#include "kernels/ops/adamax.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/amsgrad.h"
#include "kernels/ops/assign.h"
#include "kernels/ops/average.h"
#include "kernels/ops/dcasgd.h"
#include "kernels/ops/ftml.h"
#include "kernels/ops/ftrl.h"
#include "kernels/ops/group_adagrad.h"
#include "kernels/ops/lamb.h"
#include "kernels/ops/lans.h"
#include "kernels/ops/lars.h"
#include "kernels/ops/lion.h"
#include "kernels/ops/nadam.h"
#include "kernels/ops/nag.h"
#include "kernels/ops/radam.h"
#include "kernels/ops/rmsprop.h"
#include "kernels/ops/rmsprop_centered.h"
#include "kernels/ops/sgd.h"
#include "kernels/ops/sgd_momentum.h"
#include "kernels/ops/sgld.h"
#include "kernels/ops/signsgd.h"
#include "kernels/ops/signum.h"
#include "kernels/ops/yogi.h"

// RULE(Kind, Functor, name, keys, OWN(hyperparameters), STATES(...), source)
//
//   keys      kAnyKeys; kFloatKeys: keeps an f32 master of smaller floats;
//             OPTIMIZER(learning_rate, range): kFloatKeys, and besides its own
//             hyperparameters learning_rate, weight_decay, rescale_grad and
//             clip_gradient.
//   OWN       {name, default, range}: they reach the functor in this order.
//   STATES    {name}: tensors like the value in its accumulate type, zero at
//             first; {name, kPerRow}, {name, kPerColumn}: with one
//             element for each row or column.
//   source    where the formula is from; M2 is Apache MXNet at b84609d3.
//
// Rows of one name are variants of a rule, with the same hyperparameters: the
// second is for a first own hyperparameter that is not 0.
#define TENSORKV_RULES(RULE)                                                   \
  RULE(Assign, Assign, "assign", kAnyKeys, OWN(), STATES(), "M2 kvstore")      \
  RULE(Accumulate, Accumulate, "accumulate", kAnyKeys,                         \
       OWN({"scale", 1, kFinite}), STATES(), "-")                              \
  RULE(Average, Average, "average", kFloatKeys,                                \
       OWN({"weight", 1, kPositive}, {"initial_weight", 0, kNotNegative},      \
           {"rescale_grad", 1, kFinite}),                                      \
       STATES(), "-")                                                          \
  RULE(Test, Sgd, "test", OPTIMIZER(0.01, kFinite), OWN(), STATES(),           \
       "M2 optimizer.py")                                                      \
  RULE(Sgd, Sgd, "sgd", OPTIMIZER(0.1, kFinite), OWN({"momentum", 0, kUnit}),  \
       STATES(), "M2 sgd.py")                                                  \
  RULE(SgdMomentum, SgdMomentum, "sgd", OPTIMIZER(0.1, kFinite),               \
       OWN({"momentum", 0, kUnit}), STATES({"momentum"}), "M2 sgd.py")         \
  RULE(Nag, Nag, "nag", OPTIMIZER(0.1, kFinite),                               \
       OWN({"momentum", 0.9, kUnit}), STATES({"momentum"}), "M2 nag.py")       \
  RULE(DiLoCo, Nag, "diloco", OPTIMIZER(0.7, kFinite),                         \
       OWN({"momentum", 0.9, kUnit}), STATES({"momentum"}),                    \
       "Douillard et al. 2023: nag, its outer step")                           \
  RULE(Adam, Adam, "adam", OPTIMIZER(0.001, kFinite),                          \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-8, kNotNegative}),                                   \
       STATES({"mean"}, {"variance"}), "M2 adam.py")                           \
  RULE(AmsGrad, AmsGrad, "amsgrad", OPTIMIZER(0.001, kFinite),                 \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-8, kNotNegative}),                                   \
       STATES({"mean"}, {"variance"}, {"max_variance"}),                       \
       "Reddi et al. 2018, with M2's lr_t")                                    \
  RULE(AdamW, AdamW, "adamw", OPTIMIZER(0.001, kFinite),                       \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-8, kNotNegative}, {"correct_bias", 1, kFlag},        \
           {"mxnet_form", 0, kFlag}),                                          \
       STATES({"mean"}, {"variance"}), "PyTorch AdamW; M2 adamW.py")           \
  RULE(Adamax, Adamax, "adamax", OPTIMIZER(0.002, kFinite),                    \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-8, kNotNegative}),                                   \
       STATES({"mean"}, {"max_gradient"}), "M2 adamax.py")                     \
  RULE(Nadam, Nadam, "nadam", OPTIMIZER(0.001, kFinite),                       \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-8, kNotNegative},                                    \
           {"momentum_decay", 0.004, kNotNegative}),                           \
       STATES({"mean"}, {"variance"}), "M2 nadam.py, P per key")               \
  RULE(RAdam, RAdam, "radam", OPTIMIZER(0.001, kFinite),                       \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-8, kNotNegative}),                                   \
       STATES({"mean"}, {"variance"}), "Liu et al. 2020; PyTorch RAdam")       \
  RULE(AdaBelief, AdaBelief, "adabelief", OPTIMIZER(0.001, kFinite),           \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-6, kNotNegative}),                                   \
       STATES({"mean"}, {"variance"}), "M2 adabelief.py")                      \
  RULE(Yogi, Yogi, "yogi", OPTIMIZER(0.01, kFinite),                           \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.99, kUnit},                      \
           {"epsilon", 1e-3, kNotNegative}),                                   \
       STATES({"mean"}, {"variance"}), "Reddi et al. 2021, FedYogi, v from 0") \
  RULE(AdaGrad, AdaGrad, "adagrad", OPTIMIZER(0.01, kFinite),                  \
       OWN({"epsilon", 1e-6, kNotNegative}), STATES({"history"}),              \
       "M2 adagrad.py")                                                        \
  RULE(RmsProp, RmsProp, "rmsprop", OPTIMIZER(0.001, kFinite),                 \
       OWN({"centered", 0, kFlag}, {"rho", 0.9, kUnit},                        \
           {"momentum", 0.9, kUnit}, {"epsilon", 1e-8, kNotNegative},          \
           {"clip_weights", -1, kFinite}),                                     \
       STATES({"variance"}), "M2 rmsprop.py")                                  \
  RULE(RmsPropCentered, RmsPropCentered, "rmsprop", OPTIMIZER(0.001, kFinite), \
       OWN({"centered", 0, kFlag}, {"rho", 0.9, kUnit},                        \
           {"momentum", 0.9, kUnit}, {"epsilon", 1e-8, kNotNegative},          \
           {"clip_weights", -1, kFinite}),                                     \
       STATES({"variance"}, {"mean"}, {"step"}), "M2 rmsprop.py")              \
  RULE(AdaDelta, AdaDelta, "adadelta", OPTIMIZER(1, kFinite),                  \
       OWN({"rho", 0.9, kUnit}, {"epsilon", 1e-6, kNotNegative}),              \
       STATES({"variance"}, {"step_variance"}), "M2 adadelta.py")              \
  RULE(Ftrl, Ftrl, "ftrl", OPTIMIZER(0.1, kNotNegative),                       \
       OWN({"lambda1", 0.01, kNotNegative}, {"beta", 1, kNotNegative}),        \
       STATES({"z"}, {"n"}), "M2 ftrl.py")                                     \
  RULE(Ftml, Ftml, "ftml", OPTIMIZER(0.0025, kNotNegative),                    \
       OWN({"beta1", 0.6, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-8, kNotNegative}),                                   \
       STATES({"variance"}, {"d"}, {"z"}), "M2 ftml.py")                       \
  RULE(Signum, Signum, "signum", OPTIMIZER(0.01, kFinite),                     \
       OWN({"momentum", 0.9, kUnit}, {"wd_lh", 0, kFinite}),                   \
       STATES({"momentum"}), "M2 signum.py")                                   \
  RULE(SignSgd, SignSgd, "signsgd", OPTIMIZER(0.01, kFinite),                  \
       OWN({"wd_lh", 0, kFinite}), STATES(), "M2 signum.py, momentum 0")       \
  RULE(Sgld, Sgld, "sgld", OPTIMIZER(0.1, kNotNegative), OWN(), STATES(),      \
       "M2 sgld.py")                                                           \
  RULE(DcAsgd, DcAsgd, "dcasgd", OPTIMIZER(0.1, kFinite),                      \
       OWN({"momentum", 0, kUnit}, {"lambda", 0.04, kFinite}),                 \
       STATES({"momentum"}, {"moved"}), "M2 dcasgd.py")                        \
  RULE(Lion, Lion, "lion", OPTIMIZER(1e-4, kFinite),                           \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.99, kUnit}),                     \
       STATES({"momentum"}), "Chen et al. 2023")                               \
  RULE(GroupAdaGrad, GroupAdaGrad, "groupadagrad", OPTIMIZER(0.01, kFinite),   \
       OWN({"epsilon", 1e-6, kNotNegative}), STATES({"history", kPerRow}),     \
       "M2 contrib.py, with decay as adagrad has it")                          \
  RULE(                                                                        \
      Adafactor, Adafactor, "adafactor", OPTIMIZER(0.01, kNotNegative),        \
      OWN({"beta2_decay", 0.8, kNotNegative},                                  \
          {"epsilon1", 1e-30, kNotNegative}, {"epsilon2", 1e-3, kNotNegative}, \
          {"clip_threshold", 1, kPositive}),                                   \
      STATES({"row", kPerRow}, {"column", kPerColumn}),                        \
      "Shazeer and Stern 2018, with PyTorch's decay")                          \
  RULE(Lars, Lars, "lars", OPTIMIZER(0.1, kFinite),                            \
       OWN({"momentum", 0, kUnit}, {"eta", 0.001, kNotNegative},               \
           {"epsilon", 1e-8, kNotNegative}),                                   \
       STATES({"momentum"}), "M2 lars.py")                                     \
  RULE(Lamb, Lamb, "lamb", OPTIMIZER(0.001, kFinite),                          \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-6, kNotNegative}, {"lower_bound", -1, kFinite},      \
           {"upper_bound", -1, kFinite}, {"bias_correction", 1, kFlag}),       \
       STATES({"mean"}, {"variance"}), "M2 lamb.py")                           \
  RULE(Lans, Lans, "lans", OPTIMIZER(0.001, kFinite),                          \
       OWN({"beta1", 0.9, kUnit}, {"beta2", 0.999, kUnit},                     \
           {"epsilon", 1e-6, kNotNegative}, {"lower_bound", -1, kFinite},      \
           {"upper_bound", -1, kFinite}),                                      \
       STATES({"mean"}, {"variance"}), "M2 lans.py")                           \
  RULE(Expression, Expression, "expression", kFloatKeys, OWN(), STATES(),      \
       "its user: hyperparameters and states are those of its text")

namespace tensorkv {

// Names each row of the table by its first column, and numbers it from 0.
enum class RuleKind : uint8_t {
#define TENSORKV_KIND(Kind, ...) k##Kind,
  TENSORKV_RULES(TENSORKV_KIND)
#undef TENSORKV_KIND
};

#define TENSORKV_ONE(...) +1
inline constexpr int kNumRuleKinds = TENSORKV_RULES(TENSORKV_ONE);
#undef TENSORKV_ONE

inline constexpr int kMaxRuleStates = expression::kMaxStates;

}  // namespace tensorkv

#endif  // TENSORKV_KERNELS_RULE_TABLE_H_
