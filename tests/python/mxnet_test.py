"""tensorkv.mxnet with the real MXNet; tools/test_mxnet runs this."""

import os
import sys
import tempfile
import unittest
import unittest.mock

import mxnet as mx
import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full, new_namespace

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
        for name in ("tensorkv_dist_sync", "tensorkv_dist_async"):
            variables = {"TENSORKV_NAMESPACE": new_namespace()}
            with unittest.mock.patch.dict(os.environ, variables):
                plugin = mx.kv.create(name)
            self.addCleanup(plugin.close)
            self.assertEqual(plugin.type, name)
            self.assertEqual((plugin.rank, plugin.num_workers), (0, 1))

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

    def test_values_come_to_all_devices_or_in_place(self):
        plugin = self.open_plugin()
        plugin.init(3, mx.nd.zeros((2, 3)))
        out = mx.nd.zeros((2, 3))
        plugin.pushpull(3, mx.nd.full((2, 3), 7), out=out)
        np.testing.assert_array_equal(out.asnumpy(), full(7))
        value = [mx.nd.ones((2, 3)), mx.nd.ones((2, 3))]
        plugin.pushpull([3], [value])
        for each in value:
            np.testing.assert_array_equal(each.asnumpy(), full(2))

    def test_what_fails_leaves_arrays_as_they_were(self):
        plugin = self.open_plugin()
        pushed, out = mx.nd.ones(3), mx.nd.full(3, 5)
        for outs in (None, out):
            with self.assertRaises(tensorkv.NotFoundError):
                plugin.pushpull("unknown", pushed, outs)
        np.testing.assert_array_equal(pushed.asnumpy(), full(1, shape=3))
        np.testing.assert_array_equal(out.asnumpy(), full(5, shape=3))

    def test_parts_of_arrays_are_pushed_and_filled(self):
        plugin = self.open_plugin()
        values = np.arange(12, dtype="float32").reshape(4, 3)
        plugin.init("a", mx.nd.array(values)[1:3])
        for scale in (1, 2):
            outs = [mx.nd.zeros((4, 3), dtype=d) for d in ("f4", "f8", "i4")]
            plugin.pull("a", [out[2:] for out in outs])
            for out in outs:
                expected = np.zeros((4, 3))
                expected[2:] = scale * values[1:3]
                np.testing.assert_array_equal(out.asnumpy(), expected)
            plugin.push("a", mx.nd.array(2 * values)[1:3])

    def test_arrays_that_are_not_dense_are_refused(self):
        plugin = self.open_plugin()
        plugin.init("a", mx.nd.zeros((4, 2)))
        plugin.init("b", mx.nd.zeros((4, 2)))
        dense = mx.nd.ones((4, 2))
        sparse = mx.nd.sparse.row_sparse_array(
            (mx.nd.ones((1, 2)), [2]), shape=(4, 2)
        )
        for call in (
            lambda: plugin.init("c", sparse),
            lambda: plugin.push("a", sparse),
            lambda: plugin.pull("a", sparse),
            lambda: plugin.pushpull("a", sparse),
            lambda: plugin.pushpull(["b", "a"], [dense, [dense, sparse]]),
            lambda: plugin.pushpull("a", dense, sparse),
        ):
            with self.assertRaises(tensorkv.UnimplementedError):
                call()
        plugin.barrier()
        status = plugin._store.client.stat(["a", "b"])
        self.assertEqual([each.version for each in status], [1, 1])

    def test_a_trainer_refuses_another_batch_size(self):
        net = network()
        trainer = trainer_of(net, self.open_plugin(), "sgd")
        train(net, trainer, range(1))
        with self.assertRaises(UserWarning):
            trainer.step(7)

    def test_a_trainers_states_are_saved_and_loaded(self):
        def arguments():
            schedule = mx.lr_scheduler.FactorScheduler(
                step=3, factor=0.7, base_lr=0.1
            )
            return dict(momentum=0.9, lr_scheduler=schedule)

        whole = network()
        trainer = trainer_of(whole, self.open_plugin(), "sgd", **arguments())
        expected = train(whole, trainer)[10:]
        net = network()
        trainer = trainer_of(net, self.open_plugin(), "sgd", **arguments())
        train(net, trainer, range(10))
        with tempfile.TemporaryDirectory() as folder:
            trainer.save_states(f"{folder}/states")
            trainer = trainer_of(net, self.open_plugin(), "sgd", **arguments())
            trainer.load_states(f"{folder}/states")
            actual = train(net, trainer, range(10, 20))
        np.testing.assert_allclose(actual, expected, 1e-4, 1e-5)


if __name__ == "__main__":
    unittest.main()
