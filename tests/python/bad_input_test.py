"""What is refused before anything is sent, and says why."""

import os
import sys
import unittest
from unittest import mock

import numpy as np
import tensorkv
from tensorkv import _arrays

sys.path.insert(0, os.path.dirname(__file__))
from stores import ADDRESS, StoreTest, full, new_namespace


def read_only(array):
    array.flags.writeable = False
    return array


BAD_VALUES = {
    "not contiguous": (full(1, shape=(4, 4))[:, ::2], ValueError),
    "transposed": (full(1).T, ValueError),
    "of objects": (np.array([[None]]), ValueError),
    "big-endian": (full(1, ">f4"), ValueError),
    "complex": (full(1, "complex64"), ValueError),
    "extended": (full(1, "longdouble"), ValueError),
    "of text": (np.array(["a"]), ValueError),
    "of dates": (np.array(["2020-01-01"], "datetime64[D]"), ValueError),
    "structured": (np.zeros(2, [("a", "f4")]), ValueError),
    "of rank 9": (np.zeros((1,) * 9), ValueError),
    "a number": (1.0, TypeError),
    "nothing": (None, TypeError),
    "text": ("abc", TypeError),
    "a dict": ({}, TypeError),
}
BAD_OUTS = {
    **BAD_VALUES,
    "read-only": (read_only(full(0)), ValueError),
    "constant bytes": (bytes(24), ValueError),
    "of another shape": (full(0, shape=(3, 2)), ValueError),
    "of another dtype": (full(0, "float64"), ValueError),
}


class BadInputTest(StoreTest):

    def setUp(self):
        self.stores = {
            "local": self.open("local"),
            "dist_sync": self.open("dist_sync"),
        }
        for store in self.stores.values():
            store.init([1, 2], [full(1), full(2)])

    def expect(self, expected, call):
        """call(store) fails, and no value changes."""
        for name, store in self.stores.items():
            with self.subTest(name):
                with self.assertRaises(expected) as raised:
                    call(store)
                self.assertTrue(str(raised.exception))
                status = store.client.stat(["1", "2"])
                self.assertEqual([s.version for s in status], [1, 1])
                self.assertEqual(store.client.keys(), ["1", "2"])

    def test_values(self):
        for what, (value, error) in BAD_VALUES.items():
            with self.subTest(what):
                self.expect(error, lambda kv: kv.push(1, value))
                self.expect(error, lambda kv: kv.init(3, value))
                self.expect(error, lambda kv: kv.push([1, 2], [full(1), value]))
                self.expect(error, lambda kv: kv.push_pull(1, value, full(0)))

    def test_outs(self):
        for what, (out, error) in BAD_OUTS.items():
            with self.subTest(what):
                good = full(0)
                self.expect(
                    error, lambda kv: kv.pull([1, 2], out=[good, out])
                )
                self.assert_array(good, full(0))

    def test_keys(self):
        for key in (None, 1.0, True, b"1", object()):
            self.expect(TypeError, lambda kv: kv.push(key, full(1)))
            self.expect(TypeError, lambda kv: kv.pull([1, key]))
        for key in ("1", [1, "2"], ["1"]):
            self.expect(ValueError, lambda kv: kv.pull(key))
            self.expect(ValueError, lambda kv: kv.push(key, [full(1)] * 2))

    def test_lists(self):
        for value in (full(1), [], [full(1)], [full(1)] * 3, [full(1), []]):
            self.expect(ValueError, lambda kv: kv.push([1, 2], value))
            self.expect(ValueError, lambda kv: kv.init([3, 4], value))
            self.expect(ValueError, lambda kv: kv.pull([1, 2], out=value))
        self.expect(ValueError, lambda kv: kv.push(1, []))
        self.expect(ValueError, lambda kv: kv.init(3, [full(1), full(1)]))

    def test_shapes_that_do_not_fit(self):
        self.expect(ValueError, lambda kv: kv.push(1, full(1, shape=(3, 2))))
        self.expect(ValueError, lambda kv: kv.push(1, full(1, "int32")))
        self.expect(
            ValueError, lambda kv: kv.push(1, [full(1), full(1, shape=(2,))])
        )

    def test_tuples_are_no_arrays(self):
        for value in ((), (full(1),), (full(1), 3), (full(1), "f32", 3)):
            self.expect(TypeError, lambda kv: kv.client.push("1", value))

    def test_bfloat16_of_pytorch_without_ml_dtypes(self):
        tensor = np.zeros(2, "uint16"), "bf16"
        with mock.patch.object(_arrays, "ml_dtypes", None):
            with self.assertRaisesRegex(TypeError, "ml_dtypes"):
                _arrays.as_numpy(tensor)

    def test_row_ids(self):
        rows = [np.array([row]) for row in (2, -1, 0)]
        for ids in (None, rows[:1], rows[1:2], rows):
            self.expect(
                ValueError,
                lambda kv: kv.row_sparse_pull(1, full(0), row_ids=ids),
            )

    def test_outs_of_rows(self):
        for out in (
            full(0, "float64"),
            full(0, shape=(2, 4)),
            full(0, shape=(1, 3)),
            full(0, shape=(2,)),
            read_only(full(0)),
        ):
            good = full(7)
            self.expect(
                ValueError,
                lambda kv: kv.row_sparse_pull(
                    1, [good, out], row_ids=np.array([1])
                ),
            )
            self.assert_array(good, full(7))

    def test_compression(self):
        kv = self.open("device")
        for params in (
            {},
            {"threshold": 0.5},
            {"type": "3bit"},
            {"type": "2bit", "threshold": 0},
            {"type": "2bit", "threshold": float("nan")},
            {"type": "2bit", "threshold": "many"},
            {"type": "2bit", "k": 0.5},
            {"type": "topk", "k": 2},
            {"type": "dithering", "bits": 3},
            {"type": "dithering", "partition": "odd"},
            {"type": "2bit", "ef": "other"},
            {"type": "2bit", "momentum": "other"},
            {"type": "2bit", "momentum": "nesterov", "mu": 1},
            {"type": "2bit", "min_bytes": -1},
            {"type": "none", "threshold": 1},
        ):
            with self.subTest(params):
                with self.assertRaises(ValueError):
                    kv.set_gradient_compression(params)
        with self.assertRaises(TypeError):
            kv.set_gradient_compression("2bit")
        for refused, params in (
            (kv, {"type": "onebit", "scaling": False}),
            (self.stores["local"], {"type": "2bit"}),
        ):
            with self.assertRaises(NotImplementedError):
                refused.set_gradient_compression(params)

    def test_names_and_options(self):
        for name in ("", "foo", "dist_foo", "nccl", "horovod", "teststore"):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                tensorkv.create(name)
        with self.assertRaises(TypeError):
            tensorkv.create(3)
        with self.assertRaises(TypeError):
            tensorkv.create("local", target=ADDRESS)
        with self.assertRaises(tensorkv.InvalidArgumentError):
            tensorkv.Client(ADDRESS, timeout=-1)

    def test_numbers_of_the_environment(self):
        variable = "DMLC_NUM_WORKER"
        with mock.patch.dict(os.environ, {variable: "two"}):
            with self.assertRaisesRegex(
                tensorkv.InvalidArgumentError, f"{variable}: .*'two'"
            ):
                self.open("dist_sync")
        with mock.patch.dict(os.environ, {variable: ""}):
            self.open("dist_sync")

    def test_arguments_of_a_clients_verbs(self):
        client = self.stores["local"].client
        for key in (b"1", 1, None, ["1", 2], [None]):
            for call in (client.pull, client.stat, client.delete):
                with self.assertRaisesRegex(TypeError, "^key: expected a str"):
                    call(key)
        for step, error in ((-1, ValueError), (1.5, TypeError)):
            for call in (client.push, client.push_pull):
                with self.assertRaises(error) as raised:
                    call("1", full(1), step=step)
                self.assertNotIn("Invoked with", str(raised.exception))
        released = memoryview(bytearray(4))
        released.release()
        with self.assertRaisesRegex(ValueError, "released memoryview"):
            client.push("1", released)

    def test_durations_that_are_no_numbers(self):
        with self.assertRaisesRegex(ValueError, "^timeout: expected"):
            tensorkv.Client(ADDRESS, timeout=float("nan"))
        client = self.open_client()
        with self.assertRaisesRegex(ValueError, "^lease: expected"):
            client.join("worker", lease=float("nan"))
        with self.assertRaisesRegex(ValueError, "^target: expected"):
            tensorkv.Client("localhost")

    def test_closed_stores(self):
        for store in self.stores.values():
            store.close()
            store.close()
            for call in (
                lambda: store.pull(1),
                lambda: store.push(1, full(1)),
                lambda: store.client.keys(),
                lambda: store.client.stat("1"),
            ):
                with self.assertRaises(tensorkv.ClosedError):
                    call()

    def test_a_namespace_of_another_kind(self):
        namespace = new_namespace()
        self.open("dist_sync", namespace=namespace, num_workers=2)
        for kind, num_workers in (("dist_async", None), ("dist_sync", 3)):
            with self.assertRaises(tensorkv.FailedPreconditionError):
                self.open(kind, namespace=namespace, num_workers=num_workers)

    def test_optimizers(self):
        for optimizer in ("sdg", {}, {"name": 3}, {"name": "sgd", "foo": 1}):
            self.expect(ValueError, lambda kv: kv.set_optimizer(optimizer))
        for optimizer in (None, {"name": "sgd", "momentum": 2}):
            self.expect(ValueError, lambda kv: kv.set_optimizer(optimizer))
        self.expect(
            NotImplementedError, lambda kv: kv.set_optimizer(object())
        )


if __name__ == "__main__":
    unittest.main()
