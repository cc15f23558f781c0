"""A client made only of the stubs that protoc generates from proto/.

Shows that any gRPC client can use the server: NumPy arrays in and out.
Usage: python_client.py STUBS_DIRECTORY SERVER
"""

import sys
import unittest

import grpc
import numpy as np
from google.protobuf import (
    descriptor_database,
    descriptor_pb2,
    descriptor_pool,
    json_format,
    message_factory,
)

sys.path.insert(0, sys.argv.pop(1))
SERVER = sys.argv.pop(1)

import reflection_pb2 as reflection
from tensorkv.v1 import data_pb2 as data
from tensorkv.v1 import namespace_pb2 as namespace
from tensorkv.v1 import service_pb2_grpc
from tensorkv.v1 import stream_pb2 as stream
from tensorkv.v1 import tensor_pb2 as tensor

DTYPES = {
    tensor.DTYPE_F32: np.dtype("<f4"),
    tensor.DTYPE_F64: np.dtype("<f8"),
    tensor.DTYPE_F16: np.dtype("<f2"),
    tensor.DTYPE_I64: np.dtype("<i8"),
    tensor.DTYPE_BOOL: np.dtype("?"),
}
NUMBERS = {dtype: number for number, dtype in DTYPES.items()}


def to_tensor(array):
    return tensor.Tensor(
        dtype=NUMBERS[array.dtype], shape=array.shape, data=array.tobytes()
    )


def to_array(message):
    array = np.frombuffer(message.data, DTYPES[message.dtype])
    return array.reshape(message.shape)


class PythonClient(unittest.TestCase):

    def setUp(self):
        self.channel = grpc.insecure_channel(SERVER)
        self.kv = service_pb2_grpc.DataStub(self.channel)
        namespaces = service_pb2_grpc.NamespacesStub(self.channel)
        # A namespace for each test: the server is the same for all.
        self.namespace = self.id()
        namespaces.CreateNamespace(
            namespace.CreateNamespaceRequest(namespace=self.namespace),
            timeout=20,
        )

    def tearDown(self):
        self.channel.close()

    def init(self, key, array):
        entry = data.InitEntry(key=key, tensor=to_tensor(array))
        request = data.InitRequest(namespace=self.namespace, entries=[entry])
        return self.kv.Init(request, timeout=20).versions[0]

    def pull(self, key):
        request = data.PullRequest(
            namespace=self.namespace, entries=[data.PullEntry(key=key)]
        )
        return self.kv.Pull(request, timeout=20).values[0]

    def test_every_numpy_dtype_comes_back(self):
        for dtype in NUMBERS:
            array = np.array([[0, 1], [1, 0]], dtype)
            self.assertEqual(self.init(str(dtype), array), 1)
            value = self.pull(str(dtype))
            self.assertEqual(value.version, 1)
            pulled = to_array(value.tensor)
            self.assertEqual(pulled.dtype, dtype)
            np.testing.assert_array_equal(pulled, array)

    def chunks(self, arrays, manifest, push, stripe=None, part_bytes=1 << 20):
        """The messages of a stream that pushes {key: array}, or of one stripe.

        `push` is the PushRequest within `manifest`.
        """
        push.namespace = self.namespace
        for key, array in arrays.items():
            entry = push.entries.add(key=key)
            entry.tensor.CopyFrom(to_tensor(array))
            entry.tensor.ClearField("data")
        begin, end = 0, sum(array.nbytes for array in arrays.values())
        if stripe:
            manifest.stripe.CopyFrom(stripe)
            manifest.stripe.group = 1
            share = (-(-end // stripe.count) + 63) // 64 * 64
            begin, end = (
                min(end, i * share) for i in (stripe.index, stripe.index + 1)
            )
        yield stream.PushChunk(manifest=manifest)
        start = 0  # of the entry, within the payload
        for i, array in enumerate(arrays.values()):
            first, last = max(begin, start), min(end, start + array.nbytes)
            for at in range(first, last, part_bytes):
                offset = at - start
                size = min(part_bytes, last - at)
                piece = array.tobytes()[offset : offset + size]
                yield stream.PushChunk(
                    part=stream.Part(entry=i, offset=offset, data=piece)
                )
            start += array.nbytes

    def read_values(self, chunks):
        """The arrays of a stream's manifest, filled from its parts."""
        values = next(chunks).manifest.values
        return self.fill(values, chunks)

    def fill(self, values, chunks):
        """The arrays of values without data, filled from parts."""
        data = b"".join(chunk.part.data for chunk in chunks)
        begin = 0
        for value in values:
            value_tensor = value.tensor
            size = DTYPES[value_tensor.dtype].itemsize
            end = begin + size * int(np.prod(value_tensor.shape))
            value_tensor.data = data[begin:end]
            begin = end
        self.assertEqual(begin, len(data))
        return [to_array(value.tensor) for value in values]

    def test_streams_carry_arrays_in_parts(self):
        arrays = {
            key: np.random.default_rng(i).normal(size=(300, 101))
            for i, key in enumerate(("a", "b"))
        }
        for key, array in arrays.items():
            self.init(key, np.zeros_like(array))

        manifest = stream.PushManifest()
        chunks = self.chunks(
            arrays, manifest, manifest.push, part_bytes=100_000
        )
        pushed = self.kv.PushStream(chunks, timeout=60)

        self.assertEqual([r.version for r in pushed.results], [2, 2])
        pull = data.PullRequest(namespace=self.namespace, ticket_from_bytes=1)
        for key in arrays:
            pull.entries.add(key=key)
        reply = self.kv.Pull(pull, timeout=60)
        request = stream.PullStreamRequest(
            max_part_bytes=100_000, ticket=reply.ticket.id
        )
        parts = self.kv.PullStream(request, timeout=60)
        pulled = self.fill(reply.values, parts)
        for array, expected in zip(pulled, arrays.values()):
            np.testing.assert_array_equal(array, expected)

    def test_stripes_make_one_call(self):
        array = np.arange(1001, dtype="<i8")
        self.init("w", np.zeros_like(array))

        def push_pull(i):
            manifest = stream.PushManifest()
            chunks = self.chunks(
                {"w": array},
                manifest,
                manifest.push_pull.push,
                stream.Stripe(index=i, count=3),
                part_bytes=1000,
            )
            return self.kv.PushPullStream(chunks, timeout=60)

        calls = [push_pull(i) for i in range(3)]

        parts = []
        for call in calls:
            manifest, *rest = [chunk for chunk in call]
            self.assertEqual(manifest.manifest.values[0].version, 2)
            parts += [chunk.part.data for chunk in rest]
        np.testing.assert_array_equal(
            np.frombuffer(b"".join(parts), "<i8"), array
        )

    def test_rows_are_pushed_and_pulled(self):
        table = np.arange(12, dtype="<f4").reshape(4, 3)
        self.init("w", table)
        ids = np.array([3, 1, 3])
        push = data.PushRowsEntry(
            key="w",
            rows=to_tensor(ids),
            tensor=to_tensor(np.array([[1], [2], [4]], "<f4") * table[ids]),
        )
        pull = data.PullRowsEntry(key="w", rows=to_tensor(ids[::-1].copy()))

        results = self.kv.PushRows(
            data.PushRowsRequest(namespace=self.namespace, entries=[push]),
            timeout=20,
        ).results
        value = self.kv.PullRows(
            data.PullRowsRequest(namespace=self.namespace, entries=[pull]),
            timeout=20,
        ).values[0]

        self.assertEqual(results[0].version, 2)
        self.assertEqual(value.version, 2)
        expected = np.array([[5], [2], [5]]) * table[[3, 1, 3]]
        np.testing.assert_array_equal(to_array(value.tensor), expected)

    def test_states_are_set_and_read(self):
        self.init("w", np.zeros(2))
        count = to_tensor(np.array(7))
        count.dtype = tensor.DTYPE_U64
        set_state = data.SetStateEntry(
            key="w", state="update_count", tensor=count
        )
        get_state = data.GetStateEntry(key="w", state="update_count")

        self.kv.SetState(
            data.SetStateRequest(
                namespace=self.namespace, entries=[set_state]
            ),
            timeout=20,
        )
        value = self.kv.GetState(
            data.GetStateRequest(
                namespace=self.namespace, entries=[get_state]
            ),
            timeout=20,
        ).values[0]

        self.assertEqual(value.version, 1)
        self.assertEqual(value.tensor, count)

    def test_health_service_says_serving(self):
        # HealthCheckRequest{} is no bytes; SERVING is field 1 with value 1.
        check = self.channel.unary_unary("/grpc.health.v1.Health/Check")

        self.assertEqual(check(b"", timeout=20), b"\x08\x01")

    def reflect(self, **request):
        """What grpcurl asks the server, and gets."""
        ask = self.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            request_serializer=reflection.Request.SerializeToString,
            response_deserializer=reflection.Response.FromString,
        )
        return next(ask(iter([reflection.Request(**request)]), timeout=20))

    def test_reflection_is_all_that_a_client_needs(self):
        name = "tensorkv.v1.Data"
        names = [each.name for each in self.reflect(services="*").services.all]
        self.assertIn(name, names)
        files = self.reflect(file_of_symbol=name).files.descriptors
        known = descriptor_database.DescriptorDatabase()
        for file in files:
            known.Add(descriptor_pb2.FileDescriptorProto.FromString(file))
        pool = descriptor_pool.DescriptorPool(known)
        messages = message_factory.MessageFactory(pool)

        def call(verb, **fields):
            method = pool.FindServiceByName(name).methods_by_name[verb]
            request = messages.GetPrototype(method.input_type)()
            json_format.ParseDict(fields, request)
            answer = messages.GetPrototype(method.output_type).FromString
            send = self.channel.unary_unary(
                f"/{name}/{verb}", type(request).SerializeToString, answer
            )
            return json_format.MessageToDict(send(request, timeout=20))

        tensor = {"dtype": "DTYPE_F32", "shape": [1], "data": "AACAPw=="}
        entry = {"key": "reflected", "tensor": tensor}
        call("Init", namespace=self.namespace, entries=[entry])
        pulled = call(
            "Pull", namespace=self.namespace, entries=[{"key": "reflected"}]
        )
        self.assertEqual(pulled["values"][0]["tensor"]["data"], "AACAPw==")


if __name__ == "__main__":
    unittest.main(verbosity=2)
