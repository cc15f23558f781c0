"""tensorkv.Client: arrays in and out, errors, namespaces."""

import contextlib
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import ADDRESS, StoreTest, full, new_namespace, on_every_client
from tensorkv import errors
from tensorkv._types import GuardCounts

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


def status_bytes(name):
    """What Linux says of this process's memory."""
    with open("/proc/self/status") as file:
        line = next(line for line in file if line.startswith(name))
    return int(line.split()[1]) << 10


class ClientTest(StoreTest):

    def setUp(self):
        namespace = new_namespace()
        served = self.open_client(namespace=namespace)
        served.create_namespace(namespace)
        # A server in no cluster is a cluster of one.
        clustered = self.open_client("cluster:" + ADDRESS, namespace=new_namespace())
        clustered.create_namespace(clustered.namespace)
        embedded = tensorkv.Client.embedded()
        self.addCleanup(embedded.close)
        self.clients = {"served": served, "clustered": clustered, "embedded": embedded}

    @on_every_client
    def test_every_dtype_and_shape_comes_back(self, client):
        random = np.random.default_rng(1)
        values = [
            random.integers(0, 100, shape).astype(dtype)
            for dtype in DTYPES
            for shape in SHAPES
        ]
        keys = [f"{value.dtype}{value.shape}" for value in values]
        client.init(keys, values)
        outs = [np.full_like(value, 1) for value in values]
        for pulled in (client.pull(keys), client.pull(keys, out=outs)):
            for actual, expected in zip(pulled, values):
                self.assert_array(actual, expected)

    @unittest.skipUnless(ml_dtypes, "no package ml_dtypes")
    @on_every_client
    def test_small_floats_come_back(self, client):
        for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            array = np.arange(6).astype(getattr(ml_dtypes, name)).reshape(2, 3)
            client.init(name, array)
            out = np.zeros_like(array)
            client.pull(name, out=out)
            self.assert_array(client.pull(name), array)
            self.assert_array(out, array)

    @unittest.skipIf(ml_dtypes, "has the package ml_dtypes")
    def test_small_floats_without_their_package_say_what_is_missing(self):
        client = self.clients["embedded"]
        client._store.init(["w"], [(np.zeros(3, "uint16"), "bf16")], "fail", None)

        with self.assertRaisesRegex(tensorkv.UnimplementedError, "ml_dtypes"):
            client.pull("w")

    @unittest.skipUnless(torch, "no package torch")
    @on_every_client
    def test_takes_and_fills_tensors_of_pytorch(self, client):
        for dtype in (torch.float32, torch.bfloat16, torch.int64):
            tensor = torch.arange(6).reshape(2, 3).to(dtype)
            client.init(str(dtype), tensor)
            out = torch.zeros_like(tensor)
            client.pull(str(dtype), out=out)
            self.assertTrue(torch.equal(out, tensor))

    @on_every_client
    def test_takes_whatever_has_memory(self, client):
        class Exported:
            """DLPack alone, as other libraries have it."""

            def __init__(self, array):
                self.array = array

            def __dlpack__(self, **arguments):
                return self.array.__dlpack__(**arguments)

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

        array = full(7, "uint8", (4,))
        for convert in (bytearray, bytes, memoryview, Exported):
            client.init(convert.__name__, convert(array))
            self.assert_array(client.pull(convert.__name__), array)
        client.init("slice", array[1:][:2])
        self.assert_array(client.pull("slice"), array[:2])
        out = bytearray(4)
        client.pull("bytes", out=out)
        self.assertEqual(out, bytes(array))

    @on_every_client
    def test_floats_are_converted_before_they_come(self, client):
        random = np.random.default_rng(1)
        for count in (5, 2_000_003):  # the larger one goes as a stream
            array = random.normal(size=count).astype("float32")
            client.init("w", array, on_existing="replace")
            half = client.pull("w", dtype=np.float16)
            self.assert_array(half, array.astype("float16"))
            out = np.empty(count, "float16")
            client.pull("w", out=out, dtype="float16")
            self.assert_array(out, half)
            self.assert_array(client.pull("w", dtype="f16"), half)
        client.init("n", full(1, "int32"))
        for key, dtype in (
            ("n", "float16"),
            ("w", "int8"),
            ("w", "complex64"),
            ("w", "float64"),
        ):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                client.pull(key, dtype=dtype)

    @on_every_client
    def test_pulled_arrays_are_numpys_own(self, client):
        keys = [f"k{i}" for i in range(3000)]
        client.init(keys, [np.full(64, i, "int32") for i in range(3000)])

        arrays = client.pull(keys)

        self.assertEqual({type(each) for each in arrays}, {np.ndarray})
        for each in arrays:
            self.assertTrue(each.flags.carray and not each.flags.owndata)
        # Each outlives those that it shares memory with, and none is another.
        left = arrays[::7]
        del arrays
        for array in left:
            array += 1
        for i, array in enumerate(left):
            self.assert_array(array, np.full(64, 7 * i + 1, "int32"))

    @on_every_client
    def test_pulled_arrays_are_the_callers(self, client):
        client.init("w", full(1))
        client.pull("w")[:] = 5
        self.assert_array(client.pull("w"), full(1))

    @on_every_client
    def test_pushed_arrays_are_free_after_the_call(self, client):
        array = full(1)
        client.init("w", array)
        array[:] = 2
        self.assert_array(client.pull("w"), full(1))
        client.push("w", array)
        array[:] = 3
        self.assert_array(client.pull("w"), full(2))

    @on_every_client
    def test_calls_leave_no_reference_to_arrays(self, client):
        array, out = full(1), full(0)
        before = sys.getrefcount(array), sys.getrefcount(out)
        client.init("w", array)
        client.push("w", array)
        client.push_pull("w", array, out=out)
        client.pull("w", out=out)
        self.assertEqual((sys.getrefcount(array), sys.getrefcount(out)), before)

    @on_every_client
    def test_large_arrays_go_as_streams(self, client):
        array = np.random.default_rng(1).normal(size=2_000_003)
        client.init("w", np.zeros_like(array))
        self.assertEqual(client.push("w", array), 2)
        out = np.empty_like(array)
        client.pull("w", out=out)
        self.assert_array(out, array)
        self.assert_array(client.push_pull("w", array), array)

    def test_what_is_pulled_into_an_array_is_nowhere_else(self):
        # Large beside what gRPC holds of a call.
        array = np.ones(16 << 20, "float32")
        into = np.ones_like(array)
        client = self.open_client()
        client.init("large", array)
        self.addCleanup(client.delete, "large", allow_missing=True)
        calls = {
            "pull": lambda: client.pull("large", out=array),
            "push_pull": lambda: client.push_pull("large", array, out=into),
        }
        for name, call in calls.items():
            with self.subTest(name):
                with open("/proc/self/clear_refs", "w") as file:
                    file.write("5")  # the peak begins anew
                before = status_bytes("VmRSS")
                call()
                # One more copy of the elements would be all of them.
                grown = status_bytes("VmHWM") - before
                self.assertLess(grown, array.nbytes // 2)

    @on_every_client
    def test_arrays_of_one_key_get_the_same(self, client):
        client.init(["a", "b"], [full(1), full(2)])
        outs = [[full(0), full(0)], []]
        client.pull(["a", "b"], out=outs)
        self.assert_array(outs[0][0], full(1))
        self.assert_array(outs[0][1], full(1))
        outs = (full(0), full(0))
        client.pull("a", out=outs)
        self.assert_array(outs[1], full(1))
        with self.assertRaisesRegex(
            tensorkv.InvalidArgumentError, "as its first"
        ):
            client.pull("a", out=[full(0), full(0, shape=(9,))])

    @on_every_client
    def test_pulled_arrays_outlive_the_client(self, client):
        array = np.random.default_rng(1).normal(size=2_000_003)
        client.init(["a", "b"], [array, full(3)])
        large, small = client.pull(["a", "b"])
        client.close()
        self.assert_array(large, array)
        self.assert_array(small, full(3))

    @on_every_client
    def test_weights_are_for_means(self, client):
        client.init("a", full(0))
        for weight in (-1, float("nan"), float("inf"), [1, 2]):
            with self.assertRaises(ValueError):
                client.push("a", full(1), weight=weight)
        with self.assertRaisesRegex(tensorkv.InvalidArgumentError, "weight"):
            client.push("a", full(1), weight=2)

    def test_means_of_calls(self):
        namespace = new_namespace()
        means = self.open_client(namespace=namespace)
        means.create_namespace(namespace, aggregation="mean")
        means.init(["a", "b"], [full(0), full(0)])
        values = means.push_pull(
            ["a", "a", "b"], [full(1), full(5), full(8)], weight=[3, 3, 2]
        )
        self.assert_array(values[1], full(6))
        self.assert_array(values[2], full(8))
        out = np.empty((2, 3), "float32")
        means.push_pull("a", full(float("nan")), out=out, weight=0)
        self.assert_array(out, full(6))
        means.push_rows(
            ["a", "a"], [[0], [0, 1]], [full(9)[:1], full(3)], weight=2
        )
        np.testing.assert_array_equal(means.pull("a")[:, 0], [12, 3])

    def test_means_of_rounds_are_those_of_numpy(self):
        random = np.random.default_rng(3)
        weights = [3, 1, 0.5, 40]
        arrays = random.normal(size=(4, 5, 3)).astype("float32")
        counts = random.integers(0, 1000, (4, 2))
        namespace = new_namespace()
        self.open_client().create_namespace(
            namespace, mode="sync", num_workers=4, aggregation="mean"
        )
        workers = [self.open_client(namespace=namespace) for _ in weights]
        for rank, worker in enumerate(workers):
            worker.join(f"w{rank}", rank=rank)
        workers[0].init(["w", "n"], [arrays[0], counts[0]])
        for worker, array, count, weight in zip(
            workers, arrays, counts, weights
        ):
            worker.push(["w", "n"], [array, count], step=1, weight=weight)
        for worker in workers:
            mean, count = worker.pull(["w", "n"])
            np.testing.assert_allclose(
                mean,
                np.average(arrays.astype("float64"), axis=0, weights=weights),
                rtol=1e-5,
                atol=1e-6,
            )
            self.assert_array(
                count, np.rint(np.average(counts, axis=0, weights=weights)).astype("int64")
            )

    @on_every_client
    def test_rules_keys_and_metadata(self, client):
        client.set_rule("sgd", learning_rate=0.5)
        client.init(["b", "a"], [full(3), full(1)])
        client.push("b", full(2))
        client.set_hyperparameters(learning_rate=0.25)
        client.push("b", full(4))
        self.assert_array(client.pull("b"), full(1))
        self.assertEqual(client.keys(), ["a", "b"])
        stat = client.stat("b")
        self.assertEqual(
            (stat.dtype, stat.shape, stat.version), ("f32", (2, 3), 3)
        )
        self.assertIsNone(stat.digest)
        digest = client.stat("b", compute_digests=True).digest
        self.assertRegex(digest, "^[0-9a-f]{16}$")
        client.set_multipliers("b", learning_rate=2)
        client.set_rule("sgd", key_pattern="b", learning_rate=4)
        self.assertEqual(client.stat("b").learning_rate, 8)
        client.unset_multipliers("b")
        client.unset_rule("b")
        self.assertEqual(client.stat("b").learning_rate, 0.25)
        with self.assertRaises(tensorkv.NotFoundError):
            client.unset_rule("b")
        self.assertEqual(client.delete(["a", "b"]), 2)
        self.assertEqual(client.broadcast("a", full(9))[0, 0], 9)
        self.assertEqual(client.broadcast("a", full(8))[0, 0], 9)

    def test_the_list_of_rules_is_that_of_the_store(self):
        client = self.clients["embedded"]
        with self.assertRaises(tensorkv.InvalidArgumentError) as raised:
            client.set_rule("unknown")
        text = tensorkv.optimizer.__doc__
        listed = re.findall(r"^    (\w+) {2,}(.*(?:\n {5,}.*)*)", text, re.M)
        known = re.search("expected one of (.*), got", str(raised.exception))
        self.assertEqual(
            {name for name, _ in listed}, set(known.group(1).split(", "))
        )
        for name, text in listed:
            if name != "expression":
                numbers = re.findall(r"(\w+)=(-?[\d.]+(?:e-\d+)?)", text)
                client.set_rule(name, **{n: float(v) for n, v in numbers})

    @on_every_client
    def test_states_of_rules_are_set_and_read(self, client):
        client.set_rule("sgd", learning_rate=1, momentum=0.5)
        client.init(["a", "b"], [full(0), full(0)])
        self.assertEqual(client.set_state("a", "momentum", full(8)), 1)
        client.push(["a", "b"], [full(0), full(0)])
        out = np.empty((2, 3), "float32")
        self.assertIs(client.get_state("a", "momentum", out=out), out)
        self.assert_array(out, full(4))
        a, b = client.get_state(["a", "b"], "momentum")
        self.assert_array(a, full(4))
        self.assert_array(b, full(0))
        count = np.array(7, "uint64")
        self.assertEqual(
            client.set_state(["a", "b"], "update_count", [count, count]),
            [2, 2],
        )
        self.assertEqual(int(client.get_state("b", "update_count")), 7)
        with self.assertRaises(tensorkv.NotFoundError) as raised:
            client.get_state("a", "variance")
        self.assertEqual(raised.exception.reason, "STATE_NOT_FOUND")

    @on_every_client
    def test_errors_have_their_reason(self, client):
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

    def test_stubs_of_the_protocol_are_found_beside_the_package(self):
        with tempfile.TemporaryDirectory() as folder:
            stubs = pathlib.Path(folder, "tensorkv", "v1")
            stubs.mkdir(parents=True)
            (stubs / "data_pb2.py").write_text("print('found')")
            path = f"{os.environ['PYTHONPATH']}:{folder}"
            found = subprocess.run(
                [sys.executable, "-c", "import tensorkv.v1.data_pb2"],
                env={**os.environ, "PYTHONPATH": path},
                stdout=subprocess.PIPE,
                check=True,
            )
        self.assertEqual(found.stdout, b"found\n")

    def test_asyncio_is_imported_by_who_awaits(self):
        # It would take as long as all else that the package imports.
        program = "import sys, tensorkv; sys.exit('asyncio' in sys.modules)"
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_errors_of_codes_without_a_class_keep_them_as_pickles(self):
        error = errors.from_status("CANCELLED", "message", None, {"key": "w"})
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((copy.code, copy.key), ("CANCELLED", "w"))

    def test_clients_say_what_they_are_of(self):
        self.assertEqual(
            repr(self.open_client()),
            f"<tensorkv.Client of 'default' at {ADDRESS}>",
        )

    def test_a_server_that_is_down_is_unavailable(self):
        client = tensorkv.Client("127.0.0.1:1", timeout=0.3)
        with self.assertRaises((ConnectionError, TimeoutError)):
            client.pull("w")
        client.close()

    def test_namespaces(self):
        client = self.open_client()
        name = new_namespace()
        client.create_namespace(name, mode="sync", num_workers=2)
        with self.assertRaises(tensorkv.AlreadyExistsError):
            client.create_namespace(name, mode="sync", num_workers=2)
        for num_workers, expected in (
            (2, contextlib.nullcontext()),
            (3, self.assertRaises(tensorkv.FailedPreconditionError)),
        ):
            with expected:
                client.create_namespace(
                    name,
                    mode="sync",
                    num_workers=num_workers,
                    on_existing="keep",
                )
        status = client.describe_namespace(name)
        self.assertEqual((status.mode, status.num_workers), ("sync", 2))
        self.assertEqual(status.aggregation, "sum")
        client.delete_namespace(name)
        with self.assertRaises(tensorkv.NotFoundError) as raised:
            client.describe_namespace(name)
        self.assertEqual(raised.exception.reason, "NAMESPACE_NOT_FOUND")

    def test_a_namespace_is_described_as_it_was_created(self):
        config = {
            "mode": "sync",
            "num_workers": 3,
            "max_workers": 4,
            "on_worker_loss": "continue",
            "rescale_partial_rounds": True,
            "quorum": 2,
            "quorum_grace": 0.25,
            "max_open_rounds": 5,
            "on_non_finite": "skip",
            "max_norm": 1.5,
            "max_call_norm": 2.5,
            "on_large_norm": "refuse",
            "budget_bytes": 4096,
            "max_retained_bytes": 8192,
            "round_timeout": 1.5,
        }
        carrying = {
            "aggregation": "mean",
            "late": "carry",
            "staleness_decay": 0.5,
        }
        robust = {"aggregation": "trimmed_mean", "trim_fraction": 0.125}
        client = self.open_client()
        for each in (
            config,
            {"mode": "sync", "num_workers": 8, **robust},
            {"mode": "sync", "num_workers": 8, **carrying},
        ):
            name = new_namespace()
            client.create_namespace(name, **each)
            status = client.describe_namespace(name)
            self.assertEqual(each, {n: getattr(status, n) for n in each})

    def test_a_namespace_is_updated_while_it_is_used(self):
        client = self.open_client()
        name = new_namespace()
        client.create_namespace(name, mode="sync", num_workers=3)
        before = client.describe_namespace(name)
        changes = {
            "on_worker_loss": "continue",
            "rescale_partial_rounds": True,
            "quorum": 2,
            "quorum_grace": 0.25,
            "on_non_finite": "skip",
            "max_norm": 1.5,
            "max_call_norm": 2.5,
            "on_large_norm": "refuse",
            "budget_bytes": 1 << 20,
            "max_retained_bytes": 1 << 21,
            "round_timeout": 2.5,
        }
        client.update_namespace(name, **changes)
        status = client.describe_namespace(name)
        self.assertEqual(changes, {n: getattr(status, n) for n in changes})
        client.update_namespace(name, quorum=0, quorum_grace=0.0)
        status = client.describe_namespace(name)
        self.assertEqual((status.quorum, status.max_norm), (0, 1.5))
        self.assertEqual(status.num_workers, before.num_workers)
        with self.assertRaisesRegex(tensorkv.InvalidArgumentError, "quorum"):
            client.update_namespace(name, quorum=4)
        with self.assertRaisesRegex(tensorkv.InvalidArgumentError, "mask"):
            client.update_namespace(name)

    def test_unknown_choices_of_a_namespace_are_named(self):
        client = self.open_client()
        for argument in (
            "mode",
            "on_worker_loss",
            "aggregation",
            "late",
            "on_non_finite",
            "on_large_norm",
        ):
            with self.subTest(argument):
                with self.assertRaisesRegex(
                    tensorkv.InvalidArgumentError, f"^{argument}: .*maybe"
                ):
                    client.create_namespace(
                        new_namespace(), **{argument: "maybe"}
                    )
        for workers in (-1, 1.5, "two"):
            with self.assertRaisesRegex(TypeError, "^num_workers: expected"):
                client.create_namespace(new_namespace(), num_workers=workers)

    def test_the_gradient_guard_counts_by_rank(self):
        name = new_namespace()
        client = self.open_client()
        client.create_namespace(name, on_non_finite="skip")
        guarded = self.open_client(namespace=name)
        guarded.init("w", np.ones(2, np.float32))
        guarded.push("w", np.array([1, np.nan], np.float32))
        np.testing.assert_array_equal(guarded.pull("w"), np.ones(2))
        self.assertEqual(
            client.describe_namespace(name).guard_counts,
            [GuardCounts(rank=None, not_finite=1, too_large=0)],
        )

    def test_compression_that_is_set_before_it_joins_counts(self):
        name = new_namespace()
        self.open_client().create_namespace(name, mode="sync", num_workers=1)
        client = self.open_client(namespace=name)
        client.set_compression("2bit:0.5", min_bytes=0)
        client.join("worker")
        client.init("w", full(0))
        client.push("w", full(0.75), step=1)
        self.assert_array(client.pull("w"), full(0.5))

    @on_every_client
    def test_many_threads_at_once(self, client):
        client.set_rule("accumulate")
        client.init("sum", np.zeros(1000))

        def add(client):
            for _ in range(50):
                client.push("sum", np.ones(1000))
                client.pull("sum")

        self.together([client] * 4, add)
        self.assert_array(client.pull("sum"), np.full(1000, 200.0))


if __name__ == "__main__":
    unittest.main()
