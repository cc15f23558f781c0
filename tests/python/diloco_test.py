"""What the outer steps of tensorkv.torch.DiLoCo are, beside a model of them."""

import doctest
import functools
import os
import sys
import unittest

import numpy as np
import tensorkv
import torch

sys.path.insert(0, os.path.dirname(__file__))
from diloco_group import GroupTest, Model, fragments_of, module_of, values_of
from stores import new_namespace

from tensorkv.federated import FedAvg
from tensorkv.torch import DiLoCo


class OuterStepsTest(GroupTest):

    def check_is_as_the_model_of_it(self, shapes, rounds, options, **times):
        make = functools.partial(fragments_of, shapes)
        group = self.join_many(3, make, **options)
        self.together(
            group, lambda each: self.train(each, group.index(each), rounds)
        )
        interval = options["sync_every"] // len(shapes)
        expected = Model(values_of(make()), range(3), interval, **times)
        expected.train(range(rounds))
        self.check_values(group[0], expected)
        return group, expected

    def test_steps_are_those_of_the_model_of_it(self):
        group, expected = self.check_is_as_the_model_of_it(
            [[(3, 4), (5,)]], 4, {"sync_every": 5}
        )
        for diloco in group:
            # It goes on from what the server has.
            for ours, theirs in zip(
                diloco._fragments[0].parameters, expected.start[0]
            ):
                np.testing.assert_allclose(ours.detach(), theirs, 1e-12, 1e-12)

    def test_fragments_go_out_in_turns_while_workers_train(self):
        for delay, alpha in ((0, 0.0), (2, 0.0), (1, 0.5), (2, 1.0)):
            with self.subTest(delay=delay, alpha=alpha):
                options = {
                    "sync_every": 9,
                    "fragment_sync_delay": delay,
                    "fragment_update_alpha": alpha,
                }
                self.check_is_as_the_model_of_it(
                    [[(2, 2)], [(3,), ()], [(4,)]],
                    8,
                    options,
                    delay=delay,
                    alpha=alpha,
                )

    def test_an_optimizer_of_pytorch_is_taken_as_it_is(self):
        module = module_of((3, 4))
        outer = torch.optim.SGD(
            module.parameters(), lr=0.7, momentum=0.9, nesterov=True
        )
        self.check_is_as_the_model_of_it(
            [[(3, 4)]], 4, {"sync_every": 3, "outer_optimizer": outer}
        )
        outer.add_param_group({"params": module_of((1,)).parameters()})
        with self.assertRaises(tensorkv.UnimplementedError):
            self.join(module, new_namespace(), outer_optimizer=outer)

    def test_narrow_floats_lose_nothing_of_small_moves(self):
        module = module_of((), dtype=torch.bfloat16)
        module["w0"].data.fill_(1.0)
        diloco = self.join(
            module,
            new_namespace(),
            sync_every=2,
            outer_optimizer=FedAvg(0.25),
            fragment_sync_delay=1,
            fragment_update_alpha=0.5,
        )
        for number in range(1, 9):
            # By the least that there is, of which the server takes a quarter.
            module["w0"].data.fill_(diloco._fragments[0].start[0] + 1 / 128)
            diloco.step()
            module["w0"].data.fill_(3.0)
            self.assertTrue(diloco.step())
            (value,) = diloco._fragments[0].start
            self.assertAlmostEqual(float(module["w0"]), 2, delta=0.05)
        self.assertGreater(float(value), 1.0)

    def test_what_an_encoding_leaves_out_comes_later(self):
        client = self.open_client(namespace=new_namespace())
        client.set_compression("topk:0.25", 0)
        module = module_of((8,), dtype=torch.float32)
        first = module["w0"].detach().clone()
        diloco = DiLoCo(client, module, sync_every=1, outer_optimizer=FedAvg())
        by = torch.arange(1.0, 9.0)
        rounds = 20
        for _ in range(rounds):
            with torch.no_grad():
                module["w0"] += by
            diloco.step()
            values = module["w0"].detach() - first
            if diloco.round == 1:  # Two of eight.
                self.assertEqual(int((values.abs() > 0.5).sum()), 2)
        # What is not there yet is that of a few rounds.
        self.assertTrue(bool((values > 0).all()))
        self.assertTrue(bool((values < rounds * by + 0.01).all()))
        self.assertGreater(float(values.sum()), 0.7 * rounds * float(by.sum()))

    def test_moves_that_an_encoding_refuses_are_sent_no_more(self):
        client = self.open_client(namespace=new_namespace())
        client.set_compression("i8:4", 0)
        module = module_of((4,), dtype=torch.float32)
        diloco = DiLoCo(client, module, sync_every=1)
        whole = module["w0"].detach().clone()
        module["w0"].data.fill_(float("nan"))
        with self.assertRaises(tensorkv.InvalidArgumentError):
            diloco.step(3)
        module["w0"].data.copy_(whole + 1)
        self.assertTrue(diloco.step(3))
        self.assertEqual(diloco.round, 1)
        self.assertTrue(bool((module["w0"] - whole > 0.5).all()))

    def test_what_does_not_fit_is_refused(self):
        module = module_of((2,))
        for options in (
            {"sync_every": 0},
            {"fragment_sync_delay": 4},
            {"fragment_sync_delay": -1},
            {"fragment_update_alpha": 1.5},
            {"deadline": 3},
            {"name": "a*"},
        ):
            with self.subTest(**options):
                with self.assertRaises(tensorkv.InvalidArgumentError):
                    self.join(module, new_namespace(), **options)
        for fragments in (
            [],
            [module, module],
            [module, torch.nn.ReLU()],
            [module_of((i,)) for i in range(3)],
        ):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                self.join(fragments, new_namespace())
        with self.assertRaises(tensorkv.UnimplementedError):
            self.join(module, new_namespace(), outer_optimizer=[])
        complex_one = torch.nn.Parameter(torch.zeros(2, dtype=torch.complex64))
        with self.assertRaises(tensorkv.InvalidArgumentError):
            self.join(
                torch.nn.ParameterDict({"w": complex_one}), new_namespace()
            )
        namespace = new_namespace()
        diloco = self.join([module_of((2,), (3,))], namespace)
        rules = diloco._client.describe_namespace().rules
        for fragments in (
            [module_of((2,))],
            [module_of((2,), (3,)), module_of((1,))],
            [module_of((2,)), module_of((3,))],
            [module_of((2,), (4,))],
        ):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                self.join(fragments, namespace, outer_optimizer=FedAvg())
        self.assertEqual(diloco._client.describe_namespace().rules, rules)
        # Nobody waits for who was refused.
        self.assertTrue(any([diloco.step() for _ in range(4)]))
        for number in (-1, float("nan"), float("inf")):
            with self.assertRaises(ValueError):
                diloco.step(number)
        diloco.leave()

    def test_the_page_runs_as_it_stands(self):
        failed, attempted = doctest.testfile(
            os.path.abspath("docs/diloco.md"), module_relative=False
        )
        self.assertEqual(failed, 0)
        self.assertGreater(attempted, 8)


if __name__ == "__main__":
    unittest.main()
