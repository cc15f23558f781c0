"""Compares rules with torch.optim: the same gradients, the same values.

Usage: torch_rules_test.py RUN_RULE
"""

import subprocess
import sys

import numpy as np

try:
    import torch
except ImportError:
    print("skipped: no python3-torch")
    sys.exit(0)

STEPS = 20
SIZE = 50
TOLERANCE = 1e-12

# Where epsilon stands differs between the two, it is 0. nadam is left out: this
# PyTorch multiplies P by mu_t once more than its paper does.
ADAM = {"lr": 0.01, "betas": (0.9, 0.99)}
ADAM_TEXT = "learning_rate=0.01, beta1=0.9, beta2=0.99"
RMS = {"lr": 0.01, "alpha": 0.9}
RMS_TEXT = "learning_rate=0.01, rho=0.9"

CASES = [
    ("sgd(learning_rate=0.1, weight_decay=0.02)", "SGD",
     {"lr": 0.1, "weight_decay": 0.02}),
    ("sgd(learning_rate=0.1, momentum=0.9, weight_decay=0.02)", "SGD",
     {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.02}),
    ("nag(learning_rate=0.1, momentum=0.9, weight_decay=0.02)", "SGD",
     {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.02, "nesterov": True}),
    ("diloco", "SGD", {"lr": 0.7, "momentum": 0.9, "nesterov": True}),
    (f"adam({ADAM_TEXT}, epsilon=0, weight_decay=0.02)", "Adam",
     {**ADAM, "eps": 0, "weight_decay": 0.02}),
    (f"adamw({ADAM_TEXT}, epsilon=0.001, weight_decay=0.02)", "AdamW",
     {**ADAM, "eps": 0.001, "weight_decay": 0.02}),
    (f"amsgrad({ADAM_TEXT}, epsilon=0)", "AMSGrad", {**ADAM, "eps": 0}),
    (f"radam({ADAM_TEXT}, epsilon=0.001, weight_decay=0.02)", "RAdam",
     {**ADAM, "eps": 0.001, "weight_decay": 0.02}),
    (f"adamax({ADAM_TEXT}, epsilon=0, weight_decay=0.02)", "Adamax",
     {**ADAM, "eps": 0, "weight_decay": 0.02}),
    ("adagrad(learning_rate=0.1, epsilon=0.001, weight_decay=0.02)", "Adagrad",
     {"lr": 0.1, "eps": 0.001, "weight_decay": 0.02}),
    ("adadelta(learning_rate=0.5, rho=0.9, epsilon=0.001, weight_decay=0.02)",
     "Adadelta", {"lr": 0.5, "rho": 0.9, "eps": 0.001, "weight_decay": 0.02}),
    (f"rmsprop({RMS_TEXT}, epsilon=0.001, weight_decay=0.02)", "RMSprop",
     {**RMS, "eps": 0.001, "weight_decay": 0.02}),
    (f"rmsprop({RMS_TEXT}, centered=1, momentum=0.8, epsilon=0)", "RMSprop",
     {**RMS, "centered": True, "momentum": 0.8, "eps": 0}),
    ("sgd(learning_rate=0.5, schedule=multi_factor(steps=[6, 12]))",
     "SGD", {"lr": 0.5}, lambda o: torch.optim.lr_scheduler.MultiStepLR(
         o, [6, 12], 0.1)),
    ("sgd(learning_rate=0.5, schedule=factor(updates_per_step=7, factor=0.5))",
     "SGD", {"lr": 0.5}, lambda o: torch.optim.lr_scheduler.StepLR(o, 7, 0.5)),
]


def optimizer(name, parameters, options):
    """AMSGrad as it was published, which has the square root of the largest
    variance before the correction of bias: so has this PyTorch."""
    if name == "AMSGrad":
        return torch.optim.Adam(parameters, amsgrad=True, **options)
    return getattr(torch.optim, name)(parameters, **options)


def by_torch(name, options, schedule, value, gradients):
    parameter = torch.nn.Parameter(torch.tensor(value))
    optim = optimizer(name, [parameter], options)
    scheduler = schedule(optim) if schedule else None
    values = []
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optim.step()
        if scheduler:
            scheduler.step()
        values.append(parameter.detach().numpy().copy())
    return np.array(values)


def by_rule(program, rule, value, gradients):
    lines = [rule] + [
        " ".join(map(repr, map(float, row))) for row in [value, *gradients]]
    output = subprocess.run([program], input="\n".join(lines) + "\n", text=True,
                            check=True, stdout=subprocess.PIPE).stdout
    return np.array([list(map(float, row.split()))
                     for row in output.splitlines()])


def main(program):
    random = np.random.default_rng(1)
    failures = 0
    for rule, name, options, *schedule in CASES:
        value = random.uniform(-2, 2, SIZE)
        gradients = random.uniform(-1, 1, (STEPS, SIZE))
        expected = by_torch(name, options, schedule[0] if schedule else None,
                            value, gradients)
        actual = by_rule(program, rule, value, gradients)
        error = np.max(np.abs(actual - expected)) / np.max(np.abs(expected))
        failures += not error <= TOLERANCE
        print(f"{error:.1e}  {rule}")
    if failures:
        sys.exit(f"{failures} rules differ from torch.optim by more than "
                 f"{TOLERANCE}")


main(sys.argv[1])
