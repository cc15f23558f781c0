"""tensorkv.Client: arrays in and out, errors, namespaces."""

import os
import pickle
import sys
import unittest

import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import ADDRESS, StoreTest, full, new_namespace

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None
try:
    import torch
except ImportError:
    torch = None

DTYPES = (
    "float16 float32 float64 int8 uint8 int16 uint16 int32 uint32 int64 uint64 "
    "bool"
).split()
SHAPES = [(), (0,), (1,), (3, 0, 2), (2, 3, 4), (1,) * 8, (70_001,)]


class ClientTest(StoreTest):

    def setUp(self):
        namespace = new_namespace()
        served = self.open_client(namespace=namespace)
        served.create_namespace(namespace)
        embedded = tensorkv.Client.embedded()
        self.addCleanup(embedded.close)
        self.clients = {"served": served, "embedded": embedded}

    def for_each(self):
        for name, client in self.clients.items():
            with self.subTest(name):
                yield client

    def test_every_dtype_and_shape_comes_back(self):
        arrays = {
            f"{dtype}{shape}": np.arange(np.prod(shape)).reshape(shape)
            .astype(dtype)
            for dtype in DTYPES
            for shape in SHAPES
        }
        keys, values = list(arrays), list(arrays.values())
        for client in self.for_each():
            client.init(keys, values)
            outs = [np.full_like(value, 1) for value in values]
            for pulled in (client.pull(keys), client.pull(keys, out=outs)):
                for actual, expected in zip(pulled, values):
                    self.assert_array(actual, expected)

    @unittest.skipUnless(ml_dtypes, "no package ml_dtypes")
    def test_small_floats_come_back(self):
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            array = np.arange(6).astype(getattr(ml_dtypes, name)).reshape(2, 3)
            for client in self.for_each():
                client.init(name, array)
                out = np.zeros_like(array)
                client.pull(name, out=out)
                self.assert_array(client.pull(name), array)
                self.assert_array(out, array)

    @unittest.skipIf(ml_dtypes, "has the package ml_dtypes")
    def test_small_floats_without_their_package_say_what_is_missing(self):
        client = self.clients["embedded"]
        client._store.init(["w"], [(np.zeros(3, "uint16"), "bf16")], "fail")

        with self.assertRaisesRegex(tensorkv.UnimplementedError, "ml_dtypes"):
            client.pull("w")

    @unittest.skipUnless(torch, "no package torch")
    def test_takes_and_fills_tensors_of_pytorch(self):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            for client in self.for_each():
                tensor = torch.arange(6).reshape(2, 3).to(dtype)
                client.init(str(dtype), tensor)
                out = torch.zeros_like(tensor)
                client.pull(str(dtype), out=out)
                self.assertTrue(torch.equal(out, tensor))

    def test_takes_whatever_has_memory(self):
        class Exported:
            """DLPack alone, as other libraries have it."""

            def __init__(self, array):
                self.__dlpack__ = array.__dlpack__
                self.__dlpack_device__ = array.__dlpack_device__

        array = full(7, "uint8", (4,))
        for client in self.for_each():
            for i, value in enumerate(
                (bytearray(array), bytes(array), memoryview(array), array[2:][:2])
                + (Exported(array),)
            ):
                client.init(f"w{i}", value)
                expected = full(7, "uint8", (2 if i == 3 else 4,))
                self.assert_array(client.pull(f"w{i}"), expected)
            out = bytearray(4)
            client.pull("w0", out=out)
            self.assertEqual(out, bytes(array))

    def test_pulled_arrays_are_the_callers(self):
        for client in self.for_each():
            client.init("w", full(1))
            client.pull("w")[:] = 5
            self.assert_array(client.pull("w"), full(1))

    def test_pushed_arrays_are_free_after_the_call(self):
        for client in self.for_each():
            array = full(1)
            client.init("w", array)
            array[:] = 2
            self.assert_array(client.pull("w"), full(1))
            client.push("w", array)
            array[:] = 3
            self.assert_array(client.pull("w"), full(2))

    def test_calls_leave_no_reference_to_arrays(self):
        array, out = full(1), full(0)
        before = sys.getrefcount(array), sys.getrefcount(out)
        for client in self.for_each():
            client.init("w", array)
            client.push("w", array)
            client.push_pull("w", array, out=out)
            client.pull("w", out=out)
        self.assertEqual((sys.getrefcount(array), sys.getrefcount(out)), before)

    def test_large_arrays_go_as_streams(self):
        array = np.random.default_rng(1).normal(size=2_000_003)
        out = np.empty_like(array)
        for client in self.for_each():
            client.init("w", np.zeros_like(array))
            self.assertEqual(client.push("w", array), 2)
            client.pull("w", out=out)
            self.assert_array(out, array)
            self.assert_array(client.push_pull("w", array), array)

    def test_a_call_over_keys_is_all_or_nothing(self):
        for client in self.for_each():
            client.init(["a", "b"], [full(1), full(2)])
            with self.assertRaises(tensorkv.NotFoundError):
                client.push(["a", "c"], [full(5), full(5)])
            out = [full(0), full(0, shape=(9,))]
            with self.assertRaises(tensorkv.InvalidArgumentError):
                client.pull(["a", "b"], out=out)
            self.assert_array(out[0], full(0))
            self.assert_array(client.pull("a"), full(1))

    def test_rules_keys_and_metadata(self):
        for client in self.for_each():
            client.set_rule("sgd", learning_rate=0.5)
            client.init(["b", "a"], [full(3), full(1)])
            client.push("b", full(2))
            client.set_hyperparameters(learning_rate=0.25)
            client.push("b", full(4))
            self.assert_array(client.pull("b"), full(1))
            self.assertEqual(client.keys(), ["a", "b"])
            stat = client.stat("b")
            self.assertEqual(
                (stat["dtype"], stat["shape"], stat["version"]),
                ("f32", (2, 3), 3),
            )
            self.assertEqual(client.delete(["a", "b"]), 2)
            self.assertEqual(client.broadcast("a", full(9))[0, 0], 9)
            self.assertEqual(client.broadcast("a", full(8))[0, 0], 9)

    def test_errors_have_their_reason(self):
        for client in self.for_each():
            with self.assertRaises(KeyError) as raised:
                client.pull("unknown")
            error = pickle.loads(pickle.dumps(raised.exception))
            self.assertIsInstance(error, tensorkv.NotFoundError)
            self.assertEqual(error.code, "NOT_FOUND")
            self.assertEqual(error.reason, "KEY_NOT_FOUND")
            self.assertEqual(error.key, "unknown")
            self.assertIn('"unknown"', str(error))
            client.init("w", full(1))
            with self.assertRaises(tensorkv.AlreadyExistsError) as raised:
                client.init("w", full(1))
            self.assertEqual(raised.exception.reason, "KEY_EXISTS")

    def test_a_wait_that_ends_names_what_was_missing(self):
        client = self.open_client(timeout=0.2)
        with self.assertRaises(TimeoutError) as raised:
            client.pull(new_namespace(), wait=True)
        self.assertEqual(raised.exception.reason, "WAIT_ENDED")

    def test_a_server_that_is_down_is_unavailable(self):
        client = tensorkv.Client("127.0.0.1:1", timeout=0.3)
        with self.assertRaises((ConnectionError, TimeoutError)):
            client.pull("w")
        client.close()

    def test_namespaces(self):
        client = self.open_client()
        name = new_namespace()
        self.assertTrue(
            client.create_namespace(name, mode="sync", num_workers=2)
        )
        self.assertFalse(client.create_namespace(name))
        status = client.describe_namespace(name)
        self.assertEqual((status["mode"], status["num_workers"]), ("sync", 2))
        client.delete_namespace(name)
        with self.assertRaises(tensorkv.NotFoundError) as raised:
            client.describe_namespace(name)
        self.assertEqual(raised.exception.reason, "NAMESPACE_NOT_FOUND")

    def test_many_threads_at_once(self):
        for client in self.for_each():
            client.set_rule("accumulate")
            client.init("sum", np.zeros(1000))

            def add(client):
                for _ in range(50):
                    client.push("sum", np.ones(1000))
                    client.pull("sum")

            self.together([client] * 4, add)
            self.assert_array(client.pull("sum"), np.full(1000, 200.0))


class LifetimeTest(StoreTest):

    def resident_kib(self):
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith("VmRSS"):
                    return int(line.split()[1])

    def cycle(self, open_store, warm_up, cycles):
        def once():
            with open_store() as store:
                store.init("w", full(1))
                store.pull("w")
                store.delete("w")

        for _ in range(warm_up):
            once()
        before = self.resident_kib()
        for _ in range(cycles):
            once()
        return self.resident_kib() - before

    def test_opening_and_closing_embedded_stores_takes_no_memory(self):
        grown = self.cycle(
            lambda: tensorkv.Client.embedded(num_threads=2), 1000, 10_000
        )
        self.assertLess(grown, 8 << 10)

    def test_opening_and_closing_connections_takes_no_memory(self):
        namespace = new_namespace()
        self.open_client().create_namespace(namespace)
        grown = self.cycle(
            lambda: tensorkv.Client(ADDRESS, namespace=namespace), 100, 500
        )
        self.assertLess(grown, 8 << 10)


if __name__ == "__main__":
    unittest.main()
