"""tensorkv.mxnet with the real MXNet; tools/test_mxnet runs this."""

import os
import subprocess
import sys
import tempfile
import threading
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
        for name, kind in (
            ("tensorkv", "tensorkv_dist_sync"),
            ("tensorkv_dist_sync", "tensorkv_dist_sync"),
            ("tensorkv_dist_async", "tensorkv_dist_async"),
        ):
            variables = {"TENSORKV_NAMESPACE": new_namespace()}
            with unittest.mock.patch.dict(os.environ, variables):
                plugin = mx.kv.create(name)
            self.addCleanup(plugin.close)
            self.assertEqual(plugin.type, kind)
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

    def test_arrays_in_layouts_of_other_libraries_are_exchanged(self):
        def losses(kvstore):
            mx.random.seed(3)
            net = gluon.nn.HybridSequential()
            for channels in (16, 32):
                net.add(gluon.nn.Conv2D(channels, 3, activation="relu"))
            net.add(gluon.nn.Dense(4))
            net.initialize(mx.init.Xavier())
            net.hybridize()
            trainer = trainer_of(net, kvstore, "sgd", learning_rate=0.05)
            found = []
            for step in range(8):
                random = np.random.default_rng(step)
                inputs = mx.nd.array(random.normal(size=(8, 3, 12, 12)))
                with autograd.record():
                    loss = (net(inputs) - 1).square().mean()
                loss.backward()
                trainer.step(1)
                found.append(loss)
            return [loss.asscalar() for loss in found]

        np.testing.assert_allclose(
            losses(self.open_plugin()), losses(None), 1e-4
        )

    def test_weights_are_exchanged_in_place_after_inference(self):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Conv2D(16, 3), gluon.nn.Dense(64))
        net.initialize(mx.init.Xavier())
        net.hybridize()
        inputs = mx.nd.ones((8, 3, 12, 12))
        net(inputs)
        parameters = net.collect_params().values()
        weights = [each.data() for each in parameters]
        weights += [each.data().detach() for each in parameters]
        for each in parameters:
            each.grad_req = "null"
        weights += [each.data() for each in parameters]
        before = [each.asnumpy() for each in weights]
        plugin = self.open_plugin()
        plugin.init(list(range(len(weights))), weights)
        # This leaves some of them in another layout.
        net(inputs).wait_to_read()
        for i, each in enumerate(weights):
            plugin.pushpull(i, each)
        for each, value in zip(weights, before):
            np.testing.assert_array_equal(each.asnumpy(), value)

    def test_an_array_may_be_put_into_another_layout_while_it_is_lent(self):
        plugin = self.open_plugin()
        weight = mx.nd.random.normal(shape=(16, 3, 3, 3))
        inputs, bias = mx.nd.ones((8, 3, 12, 12)), mx.nd.zeros(16)
        before = weight.asnumpy()
        plugin.init("a", mx.nd.zeros(weight.shape))
        for _ in range(3):
            plugin.pushpull("a", weight)
            # This leaves the weight in another layout, before the next call or
            # after it.
            mx.nd.Convolution(
                inputs, weight, bias, kernel=(3, 3), num_filter=16
            )
        plugin.barrier()
        np.testing.assert_array_equal(weight.asnumpy(), before)

    def test_workers_may_come_to_many_keys_in_other_orders(self):
        group = self.open_group("dist_sync", 2)
        plugins = [TensorKV(store) for store in group]
        keys = list(range(20))

        def work(plugin):
            plugin.init(keys, [mx.nd.zeros(2)] * len(keys))
            order = keys if plugin.rank == 0 else keys[::-1]
            values = {key: mx.nd.full(2, key + plugin.rank) for key in keys}
            for key in order:
                plugin.pushpull(key, values[key])
                # Each is exchanged alone, and not with those behind it.
                while plugin._exchange._jobs:
                    threading.Event().wait(0.001)
            plugin.barrier()
            return [values[key].asnumpy()[0] for key in keys]

        for found in self.together(plugins, work):
            self.assertEqual(found, [2 * key + 1 for key in keys])
        for plugin in plugins:
            plugin.close()

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

    def test_a_key_is_exchanged_in_order_whichever_array_is_ready(self):
        plugin = self.open_plugin()
        plugin.init(3, mx.nd.zeros(3))
        plugin.store.set_optimizer("sgd", learning_rate=1.0)
        late = mx.nd.ones((1500, 1500))
        for _ in range(3):
            late = mx.nd.dot(late, late) / 1500
        # The engine has the second array long before the first.
        first = late[0, :3] * 1
        second = mx.nd.full(3, 4)
        plugin.pushpull(3, first)
        plugin.pushpull(3, second)
        np.testing.assert_allclose(first.asnumpy(), full(-1, shape=3), 1e-5)
        np.testing.assert_allclose(second.asnumpy(), full(-5, shape=3), 1e-5)

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

    def test_errors_come_with_a_later_call(self):
        plugin = self.open_plugin()
        plugin.init("a", mx.nd.zeros(3))
        pushed = mx.nd.ones(3)
        pulled = [mx.nd.full(3, 5), mx.nd.full(3, 5)]
        for outs in (None, pulled):
            plugin.pushpull("b", pushed, outs)
            with self.assertRaises(tensorkv.NotFoundError):
                plugin.barrier()
        for array, before in zip([pushed, *pulled], (1, 5, 5)):
            np.testing.assert_array_equal(
                array.asnumpy(), full(before, shape=3)
            )
        value = mx.nd.ones(3)
        plugin.pushpull("a", value)
        plugin.barrier()
        np.testing.assert_array_equal(value.asnumpy(), np.ones(3, "float32"))

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
        status = plugin.store.client.stat(["a", "b"])
        self.assertEqual([each["version"] for each in status], [1, 1])

    def test_a_store_that_is_closed_leaves_nothing_behind(self):
        before = threading.active_count()
        plugin = TensorKV(self.open("dist_sync"))
        plugin.init("a", mx.nd.zeros(3))
        plugin.pushpull("a", mx.nd.ones(3))
        plugin.close()
        self.assertEqual(threading.active_count(), before)
        with self.assertRaises(tensorkv.ClosedError):
            plugin.pushpull("a", mx.nd.ones(3))

    def test_an_error_that_nobody_got_is_printed_at_the_end(self):
        program = (
            "import mxnet as mx, tensorkv.mxnet\n"
            "kv = mx.kv.create('tensorkv')\n"
            "kv.pushpull('unknown', mx.nd.ones(3))\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "TENSORKV_NAMESPACE": new_namespace()},
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
        self.assertIn("NotFoundError", ended.stderr)

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
