"""What a client makes of a server that answers whatever it likes."""

import asyncio
import itertools
import os
import sys
import unittest
from concurrent import futures

import grpc
import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full


class HostileServer(grpc.GenericRpcHandler):
    """Answers each call of a method with bytes, a status, or a function's."""

    def __init__(self, answers):
        self._answers = answers
        self._server = grpc.server(
            futures.ThreadPoolExecutor(4), handlers=[self]
        )
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def close(self):
        self._server.stop(None).wait()

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(
            lambda _, context: self._answer(details.method, context)
        )

    def _answer(self, method, context):
        answer = self._answers.get(method.rpartition("/")[2], b"")
        if callable(answer):
            answer = answer()
        if isinstance(answer, bytes):
            return answer
        code, text = answer
        context.set_code(code)
        context.set_details(text)
        return b""


class HostileServerTest(StoreTest):

    def client_of(self, answers, **options):
        server = HostileServer(answers)
        self.addCleanup(server.close)
        return self.open_client(server.address, **options)

    def test_text_that_is_not_utf8_is_shown(self):
        client = self.client_of(
            {"Pull": (grpc.StatusCode.NOT_FOUND, b"no \xff")}
        )
        with self.assertRaisesRegex(tensorkv.NotFoundError, r"no \\xff$"):
            client.pull("w")

        async def run():
            return await asyncio.gather(
                *(client.aio.pull("w") for _ in range(3)),
                return_exceptions=True,
            )

        for error in asyncio.run(run()):
            self.assertIsInstance(error, tensorkv.NotFoundError)

    def test_pages_without_end_end_with_the_timeout(self):
        numbers = itertools.count()
        page = lambda: b"\x12\x08%08d" % next(numbers)
        client = self.client_of({"List": page}, timeout=1)
        with self.assertRaises(tensorkv.DeadlineExceededError):
            client.keys()

    def test_pages_that_do_not_rise_are_an_error(self):
        client = self.client_of({"List": b"\x12\x04next"})
        with self.assertRaisesRegex(tensorkv.InternalError, "page_token"):
            client.keys()

    def test_empty_replies_are_errors_where_they_lack_something(self):
        client = self.client_of({})
        ids = np.array([0])
        for call in (
            lambda: client.push("w", full(1)),
            lambda: client.pull("w"),
            lambda: client.pull("w", out=full(0)),
            lambda: client.push_pull("w", full(1)),
            lambda: client.push_rows("w", ids, full(1, shape=(1, 3))),
            lambda: client.pull_rows("w", ids),
            lambda: client.stat("w"),
            lambda: client.join("worker"),
        ):
            with self.assertRaises(tensorkv.InternalError):
                call()


if __name__ == "__main__":
    unittest.main()
