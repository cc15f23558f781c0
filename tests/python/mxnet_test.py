"""tensorkv.mxnet with the real MXNet; tools/test_mxnet runs this."""

import os
import sys
import tempfile
import unittest

import mxnet as mx
import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full

from mxnet import autograd, gluon
from tensorkv.mxnet import TensorKV


def network():
    mx.random.seed(3)
    net = gluon.nn.Sequential()
    net.add(gluon.nn.Dense(8, activation="tanh", in_units=6))
    net.add(gluon.nn.Dense(3, in_units=8))
    net.initialize(mx.init.Xavier())
    net[0].weight.lr_mult = 0.5
    net[1].weight.wd_mult = 0.0
    return net


def train(net, trainer, steps=range(20), change=None):
    losses = []
    for step in steps:
        random = np.random.default_rng(step)
        inputs = mx.nd.array(random.normal(size=(16, 6)))
        with autograd.record():
            loss = (net(inputs) - inputs[:, :3].sin()).square().mean()
        loss.backward()
        trainer.step(1)
        losses.append(loss)
        if change is not None:
            change(trainer, step)
    # They are read last, since MXNet's engine is steps behind the loop.
    return np.array([loss.asscalar() for loss in losses])


def trainer_of(net, kvstore, optimizer, **arguments):
    return gluon.Trainer(
        net.collect_params(), optimizer, arguments, kvstore=kvstore
    )


class MXNetTest(StoreTest):

    def open_plugin(self, kind="dist_sync", **options):
        plugin = TensorKV(self.open(kind, **options))
        self.addCleanup(plugin.close)
        return plugin

    def test_is_made_by_name(self):
        for name in ("tensorkv", "tensorkv_dist_sync", "tensorkv_dist_async"):
            self.assertIs(
                mx.kvstore.KVStoreBase.kv_registry[name].__module__,
                TensorKV.__module__,
            )

    def test_losses_are_those_of_gluons_own_updates(self):
        def lower(trainer, step):
            trainer.set_learning_rate(0.1 if step < 10 else 0.02)

        def schedule():
            return mx.lr_scheduler.FactorScheduler(
                step=3, factor=0.8, base_lr=0.1
            )

        cases = [
            ("sgd", lambda: dict(learning_rate=0.1, wd=0.1), None),
            ("sgd", lambda: dict(learning_rate=0.05, momentum=0.9), None),
            ("nag", lambda: dict(learning_rate=0.05, momentum=0.9), None),
            ("adam", lambda: dict(learning_rate=0.01), None),
            ("sgd", lambda: dict(learning_rate=0.3), lower),
            ("sgd", lambda: dict(lr_scheduler=schedule()), None),
        ]
        for optimizer, arguments, change in cases:
            with self.subTest(optimizer, **arguments()):
                net = network()
                expected = train(
                    net,
                    trainer_of(net, None, optimizer, **arguments()),
                    change=change,
                )
                net = network()
                plugin = self.open_plugin()
                actual = train(
                    net,
                    trainer_of(net, plugin, optimizer, **arguments()),
                    change=change,
                )
                np.testing.assert_allclose(actual, expected, 1e-4, 1e-5)

    def test_keys_are_exchanged_in_the_order_of_their_calls(self):
        plugin = self.open_plugin()
        plugin.init(3, mx.nd.zeros((2, 3)))
        outs = [mx.nd.zeros((2, 3)) for _ in range(5)]
        for i, out in enumerate(outs):
            plugin.pushpull(3, mx.nd.full((2, 3), i), out=out)
            np.testing.assert_array_equal(out.asnumpy(), full(i))
        value = [mx.nd.ones((2, 3)), mx.nd.ones((2, 3))]
        plugin.pushpull([3], [value])
        for each in value:
            np.testing.assert_array_equal(each.asnumpy(), full(2))

    def test_errors_come_with_a_later_call(self):
        plugin = self.open_plugin()
        plugin.init("a", mx.nd.zeros(3))
        plugin.pushpull("b", mx.nd.ones(3))
        with self.assertRaises(tensorkv.NotFoundError):
            plugin.barrier()
        value = mx.nd.ones(3)
        plugin.pushpull("a", value)
        plugin.barrier()
        np.testing.assert_array_equal(value.asnumpy(), np.ones(3, "float32"))

    def test_a_trainers_states_are_saved_and_loaded(self):
        arguments = dict(learning_rate=0.1, momentum=0.9)
        whole = network()
        trainer = trainer_of(whole, self.open_plugin(), "sgd", **arguments)
        expected = train(whole, trainer)[10:]
        net = network()
        trainer = trainer_of(net, self.open_plugin(), "sgd", **arguments)
        train(net, trainer, range(10))
        with tempfile.TemporaryDirectory() as folder:
            trainer.save_states(f"{folder}/states")
            trainer = trainer_of(net, self.open_plugin(), "sgd", **arguments)
            trainer.load_states(f"{folder}/states")
            actual = train(net, trainer, range(10, 20))
        np.testing.assert_allclose(actual, expected, 1e-4, 1e-5)


if __name__ == "__main__":
    unittest.main()
