"""What a client makes of a server that answers whatever it likes."""

import os
import sys
import unittest
from concurrent import futures

import grpc
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest


class HostileHandler(grpc.GenericRpcHandler):
    """Answers every call with a status whose text is not UTF-8."""

    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(
            lambda _, context: context.abort(
                grpc.StatusCode.NOT_FOUND, b"no \xff"
            )
        )


class HostileServerTest(StoreTest):

    def test_text_that_is_not_utf8_is_shown(self):
        server = grpc.server(
            futures.ThreadPoolExecutor(1), handlers=[HostileHandler()]
        )
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())
        client = self.open_client(f"127.0.0.1:{port}")
        with self.assertRaisesRegex(tensorkv.NotFoundError, r"no \\xff$"):
            client.pull("w")


if __name__ == "__main__":
    unittest.main()
