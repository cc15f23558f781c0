"""The vocabulary of KVStore, on every kind of store."""

import functools
import os
import sys
import tempfile
import unittest
from unittest import mock

import numpy as np
import tensorkv
from tensorkv import RowSparseArray

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full

KINDS = ("local", "device", "dist_sync", "dist_device_sync", "dist_async")


class SGD:
    """The attributes that mxnet.optimizer.SGD has."""

    def __init__(self, learning_rate, momentum=0.0, lr_scheduler=None):
        self.lr = learning_rate
        self.momentum = momentum
        self.wd = 0.0
        self.rescale_grad = 1.0
        self.clip_gradient = None
        self.multi_precision = False
        self.lr_scheduler = lr_scheduler
        self.lr_mult = {}
        self.wd_mult = {}


class Test:
    """mxnet.optimizer.Test: adds what is pushed."""

    rescale_grad = 2.0


def on_every_kind(test):
    """A test of all kinds of stores."""

    @functools.wraps(test)
    def run(self):
        for kind in KINDS:
            with self.subTest(kind):
                test(self, self.open(kind))

    return run


class EveryKindTest(StoreTest):
    """What one worker sees is the same everywhere."""

    @on_every_kind
    def test_push_assigns(self, kv):
        kv.init(3, full(2))
        out = full(0)
        self.assertIs(kv.pull(3, out=out), out)
        self.assert_array(out, full(2))
        kv.push(3, full(8))
        self.assert_array(kv.pull(3), full(8))

    @on_every_kind
    def test_init_and_push_keep_copies(self, kv):
        array = full(1)
        kv.init(3, array)
        array[:] = 2
        self.assert_array(kv.pull(3), full(1))
        kv.push(3, array)
        array[:] = 9
        self.assert_array(kv.pull(3), full(2))

    @on_every_kind
    def test_values_of_devices_are_summed(self, kv):
        kv.init("w", full(0))
        kv.push("w", [full(i) for i in (1, 2, 3)])
        outs = [full(0), full(0)]
        kv.pull("w", out=outs)
        self.assert_array(outs, [full(6)] * 2)

    @on_every_kind
    def test_lists_of_keys(self, kv):
        keys = [5, 7, 9]
        kv.init(keys, [full(1)] * 3)
        kv.push(keys, [full(i) for i in keys], priority=-1)
        outs = [full(0) for _ in keys]
        kv.pull(keys, out=outs, priority=-1)
        self.assert_array(outs, [full(i) for i in keys])
        kv.push(keys, [[full(1), full(i)] for i in keys])
        outs = [[full(0), full(0)] for _ in keys]
        kv.pull(keys, out=outs)
        self.assert_array(outs, [[full(1 + i)] * 2 for i in keys])

    @on_every_kind
    def test_a_key_that_repeats_in_a_call_is_summed(self, kv):
        kv.init([1, 2], [full(0), full(0)])
        kv.push([1, 2, 1], [full(1), full(2), full(3)])
        outs = [full(0), full(0), full(0)]
        kv.pull([1, 2, 1], out=outs)
        self.assert_array(outs, [full(4), full(2), full(4)])

    def test_numpy_integers_are_keys(self):
        kv = self.open("local")
        kv.init(np.int32(3), full(1))
        self.assert_array(kv.pull(3), full(1))

    @on_every_kind
    def test_push_pull(self, kv):
        kv.init([1, 2], [full(0), full(0)])
        in_place = full(3)
        self.assertIs(kv.push_pull(1, in_place), in_place)
        self.assert_array(in_place, full(3))
        outs = [[full(0), full(0)], [full(0)]]
        kv.push_pull([1, 2], [[full(1), full(2)], full(5)], out=outs)
        self.assert_array(outs[0], [full(3)] * 2)
        self.assert_array(outs[1], [full(5)])
        parts = [full(1), full(4)]
        kv.push_pull(1, parts)
        self.assert_array(parts, [full(5)] * 2)

    @on_every_kind
    def test_broadcast(self, kv):
        out = full(0)
        kv.broadcast("w", full(4), out)
        self.assert_array(out, full(4))
        with self.assertRaises(tensorkv.AlreadyExistsError):
            kv.broadcast("w", full(4), out)

    @on_every_kind
    def test_init_again_is_an_error(self, kv):
        kv.init(3, full(1))
        with self.assertRaises(tensorkv.AlreadyExistsError) as raised:
            kv.init([4, 3], [full(1)] * 2)
        self.assertEqual(raised.exception.key, "3")
        self.assertEqual(kv.client.keys(), ["3"])

    @on_every_kind
    def test_keys_without_init_are_not_found(self, kv):
        for call in (
            lambda: kv.push(1, full(1)),
            lambda: kv.pull(1),
            lambda: kv.pull(1, out=full(0)),
            lambda: kv.push_pull(1, full(1)),
        ):
            with self.assertRaises(tensorkv.NotFoundError) as raised:
                call()
            self.assertEqual(raised.exception.key, "1")

    @on_every_kind
    def test_row_sparse_pull(self, kv):
        value = np.arange(12.0).reshape(4, 3)
        kv.init("e", value)
        out, other = np.ones((4, 3)), np.ones((4, 3))
        ids = np.array([[3, 1], [3, 3]])
        kv.row_sparse_pull("e", out, row_ids=ids)
        self.assert_array(out, value * [[0], [1], [0], [1]])
        none = np.array([], "int64")
        kv.row_sparse_pull(
            ["e"], [[out, other]], row_ids=[none, np.array([0])]
        )
        self.assert_array(out, np.zeros((4, 3)))
        self.assert_array(other, value * [[1], [0], [0], [0]])

    @on_every_kind
    def test_pushed_rows_change_alone(self, kv):
        kv.set_optimizer(Test())  # adds twice what is pushed
        kv.init(["e", "w"], [full(1, shape=(4, 3)), full(1)])
        rows = RowSparseArray(full([[1], [2], [3]], shape=(3, 3)), [3, 1, 3])
        kv.push("e", rows)
        expected = full([[1], [5], [1], [9]], shape=(4, 3))
        self.assert_array(kv.pull("e"), expected)
        none = RowSparseArray(full(0, shape=(0, 3)), np.array([], "int32"))
        kv.push(["e", "w", "e"], [[rows, none], full(2), none])
        self.assert_array(kv.pull("e"), expected * 2 - 1)
        for wrong in (
            [rows, full(1, shape=(4, 3))],
            RowSparseArray(full(1, shape=(1, 3)), [4]),
            RowSparseArray(full(1, shape=(1, 2)), [0]),
            RowSparseArray(full(1, shape=(1, 3)), [0, 1]),
            RowSparseArray(full(1, shape=(1, 3)), [0.0]),
        ):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                kv.push("e", wrong)
        kv.push("w", full(0))
        self.assert_array(kv.pull("w"), full(5))
        self.assert_array(kv.pull("e"), expected * 2 - 1)

    @on_every_kind
    def test_optimizers_update_in_the_store(self, kv):
        sgd = {"name": "sgd", "lr": 0.5}
        for key, optimizer in enumerate((SGD(0.5), "sgd", sgd)):
            more = {"lr": 0.5} if optimizer == "sgd" else {}
            kv.set_optimizer(optimizer, **more)
            kv.init(key, full(3))
            kv.push(key, [full(1), full(1)])
            self.assert_array(kv.pull(key), full(2))

    @on_every_kind
    def test_a_new_learning_rate_keeps_the_state(self, kv):
        kv.set_optimizer(SGD(1.0, momentum=0.5))
        kv.init(3, full(0))
        kv.push(3, full(1))  # momentum -1
        kv.set_learning_rate(2.0)
        kv.push(3, full(0))  # momentum -0.5
        self.assert_array(kv.pull(3), full(-1.5))
        kv.set_optimizer(SGD(4.0, momentum=0.5))
        kv.push(3, full(0))  # momentum -0.25
        self.assert_array(kv.pull(3), full(-1.75))

    @on_every_kind
    def test_states_that_were_saved_go_on(self, kv):
        path = os.path.join(tempfile.mkdtemp(), "states.safetensors")
        kv.set_optimizer("adam", learning_rate=0.5)
        kv.init("a", full(0))
        for gradient in (1, -3):
            kv.push("a", full(gradient))
        kv.save_optimizer_states(path)
        before = kv.pull("a")
        kv.push("a", full(2))
        after = kv.pull("a")

        kv.set_optimizer("sgd")
        kv.push("a", full(1))
        kv.pull("a")  # the round is over before the rule changes
        kv.set_optimizer("assign")
        kv.push("a", before)
        self.assert_array(kv.pull("a"), before)
        kv.set_optimizer("adam", learning_rate=0.5)
        kv.load_optimizer_states(path)
        kv.push("a", full(2))

        self.assert_array(kv.pull("a"), after)
        with open(path, "wb") as file:
            file.write(b"no states")
        with self.assertRaises(ValueError):
            kv.load_optimizer_states(path)

    def test_states_of_before_stay_where_saving_fails(self):
        kv = self.open()
        kv.set_optimizer("sgd", learning_rate=1, momentum=0.5)
        kv.init("a", full(0))
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "states.safetensors")
            kv.save_optimizer_states(path)
            with mock.patch("numpy.ascontiguousarray", side_effect=OSError):
                with self.assertRaises(OSError):
                    kv.save_optimizer_states(path)
            self.assertEqual(os.listdir(folder), ["states.safetensors"])
            kv.load_optimizer_states(path)

    @on_every_kind
    def test_multi_precision_is_a_master_of_f32(self, kv):
        optimizer = SGD(learning_rate=1.0)
        optimizer.multi_precision = True
        kv.set_optimizer(optimizer)
        kv.init("w", full(1, "float16"))
        # Each is too small to show in float16, and two of them are not.
        for expected in (1, 1 - 2**-11):
            kv.push("w", full(2**-12, "float16"))
            self.assert_array(kv.pull("w"), full(expected, "float16"))

    @on_every_kind
    def test_a_learning_rate_scheduler_is_not_taken(self, kv):
        with self.assertRaisesRegex(NotImplementedError, "lr_scheduler"):
            kv.set_optimizer(SGD(1.0, lr_scheduler=object()))

    @on_every_kind
    def test_what_is_not_there_says_so(self, kv):
        for call in (
            lambda: kv.push_pull(1, RowSparseArray(full(1), [0, 1])),
            lambda: kv.save_optimizer_states("states", dump_optimizer=True),
        ):
            with self.assertRaises(NotImplementedError):
                call()
        self.assertTrue(kv.is_capable("optimizer"))
        with self.assertRaises(ValueError):
            kv.is_capable("levitation")

    def test_gradients_are_compressed(self):
        for kind in ("device", "dist_sync", "dist_async"):
            kv = self.open(kind)
            kv.set_optimizer("accumulate")
            kv.init("g", full(0))
            # The devices are summed before they are encoded.
            kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
            kv.push("g", [full(0.25), full(0.5)])
            self.assert_array(kv.pull("g"), full(0.5))
            kv.push_pull("g", full(0.25, "float64"), out := full(0))
            self.assert_array(out, full(1))
            kv.push("g", full(0.25))
            kv.set_gradient_compression({"type": "none"})
            kv.push("g", full(0.25))
            self.assert_array(kv.pull("g"), full(1.25))

    def test_every_type_of_compression(self):
        values = np.array([0.5, -1, 0.25, 2], "float32")
        for params, expected in (
            ({"type": "1bit", "threshold": 0}, [1, -1, 1, 1]),
            ({"type": "onebit"}, [0.9375, -0.9375, 0.9375, 0.9375]),
            ({"compressor": "topk", "k": 0.5, "ef": None}, [0, -1, 0, 2]),
            ({"type": "randomk", "k": 1}, values),
            ({"type": "dithering", "bits": 4, "normalize": "max",
              "ef": "vanilla", "partition": "natural"}, values),
            ({"type": "fp16", "momentum": "nesterov", "mu": 0.5}, values * 1.5),
            ({"type": "bf16", "min_bytes": 1 << 20}, values),
            ({"type": "bf16", "ef": "vanilla"}, values),
            ({"type": "fp8", "block_size": 4}, values),
            ({"type": "float8_e5m2"}, values),
            ({"type": "int8", "block_size": 1}, values),
        ):
            with self.subTest(params):
                kv = self.open("device")
                kv.set_gradient_compression(params)
                kv.init("g", np.zeros(4, "float32"))
                kv.push("g", values)
                np.testing.assert_allclose(kv.pull("g"), expected, rtol=1e-6)

    def test_properties(self):
        for kind in KINDS:
            kv = self.open(kind)
            self.assertEqual(kv.type, kind)
            self.assertEqual((kv.rank, kv.num_workers), (0, 1))
            kv.barrier()
        self.assertEqual(self.open("LoCaL").type, "local")


class UpdaterTest(StoreTest):

    def test_changes_what_is_stored(self):
        for kind in ("local", "device"):
            with self.subTest(kind):
                self.check_it_changes_what_is_stored(self.open(kind))

    def check_it_changes_what_is_stored(self, kv):
        calls = []

        def update(key, pushed, stored):
            calls.append((key, pushed[0, 0]))
            stored += pushed * 2

        kv.init([3, 4], [full(4), full(1)])
        kv.set_updater(update)
        kv.push(3, full(1))
        self.assert_array(kv.pull(3), full(6))
        kv.push([3, 4, 3], [full(1), [full(1), full(2)], full(1)])
        self.assert_array(kv.pull(3), full(10))
        self.assert_array(kv.pull(4), full(7))
        self.assertEqual(calls, [(3, 1), (3, 2), (4, 3)])

    def test_gets_keys_as_they_were_given(self):
        kv = self.open("local")
        keys = []
        kv.init("w", full(1))
        kv.set_updater(lambda key, pushed, stored: keys.append(key))
        kv.push("w", full(1))
        self.assertEqual(keys, ["w"])

    def test_one_that_fails_changes_nothing(self):
        kv = self.open("local")
        kv.init([1, 2], [full(1), full(1)])

        def update(key, pushed, stored):
            stored[:] = 9
            if key == 2:
                raise RuntimeError("no")

        kv.set_updater(update)
        with self.assertRaises(RuntimeError):
            kv.push([1, 2], [full(1), full(1)])
        self.assert_array(kv.pull(1), full(1))

    def test_may_be_an_expression(self):
        kv = self.open("local")
        kv.init(3, full(4))
        kv.set_updater("stored += 2 * grad")
        kv.push(3, [full(1), full(2)])
        self.assert_array(kv.pull(3), full(10))
        with self.assertRaises(tensorkv.InvalidArgumentError):
            kv.set_updater("stored +")

    def test_gets_rows_as_arrays(self):
        kv = self.open("local")
        kv.init("e", full(1, shape=(4, 3)))
        pushed = []
        kv.set_updater(lambda key, array, stored: pushed.append(array))
        rows = RowSparseArray(full(2, shape=(2, 3)), [3, 3])
        kv.push("e", [rows, full(1, shape=(4, 3))])
        expected = full([[1], [1], [1], [5]], shape=(4, 3))
        self.assert_array(pushed, [expected])
        for ids in ([4, 0], [-1, 0], [0]):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                kv.push("e", RowSparseArray(full(2, shape=(2, 3)), ids))

    def test_is_for_local_stores(self):
        with self.assertRaises(NotImplementedError):
            self.open("dist_sync").set_updater(lambda *_: None)
        with self.assertRaises(ValueError):
            self.open("local").set_updater(None)

    def test_goes_without_compression_as_a_function(self):
        compression = {"type": "2bit", "threshold": 0.5}
        kv = self.open("device")
        kv.init(3, full(1))
        kv.set_updater(lambda key, pushed, stored: stored.fill(7))
        with self.assertRaises(NotImplementedError):
            kv.set_gradient_compression(compression)
        kv.set_gradient_compression({"type": "none"})
        kv.push(3, full(1))
        self.assert_array(kv.pull(3), full(7))
        kv.set_updater("stored += 2 * grad")
        kv.set_gradient_compression(compression)
        with self.assertRaises(NotImplementedError):
            kv.set_updater(lambda key, pushed, stored: None)
        kv.push(3, full(9))
        self.assert_array(kv.pull(3), full(8))

    def test_makes_way_for_an_optimizer_and_back(self):
        kv = self.open("local")
        kv.init(3, full(1))
        kv.set_updater(lambda key, pushed, stored: None)
        kv.set_optimizer("accumulate")
        kv.push(3, full(1))
        self.assert_array(kv.pull(3), full(2))
        kv.set_updater(lambda key, pushed, stored: stored.fill(7))
        kv.push(3, full(1))
        self.assert_array(kv.pull(3), full(7))


if __name__ == "__main__":
    unittest.main()
