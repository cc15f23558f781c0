"""Certificates and tokens, against a server with a policy."""

import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, full

TOKEN = "a-token-that-nobody-guesses"
POLICY = """
grants { callers: "cn:trainer" namespaces: "*" role: ADMIN }
grants { callers: "token:reader" namespaces: "*" role: READ }
"""


def openssl(*arguments):
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def make_certificate(folder, name, usage, *extensions):
    """A certificate of the authority in `folder`, for that common name."""
    key, request = folder / f"{name}.key", folder / f"{name}.csr"
    openssl(
        *"req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes".split(),
        *("-subj", f"/CN={name}", "-keyout", key, "-out", request),
        *("-addext", f"extendedKeyUsage={usage}", *extensions),
    )
    openssl(
        *("x509", "-req", "-in", request, "-copy_extensions", "copy"),
        *("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key"),
        *("-out", folder / f"{name}.crt"),
    )


def make_files(folder):
    openssl(
        *"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256".split(),
        *("-nodes", "-subj", "/CN=ca", "-keyout", folder / "ca.key"),
        *("-out", folder / "ca.crt"),
    )
    names = ("-addext", "subjectAltName=DNS:localhost")
    make_certificate(folder, "server", "serverAuth", *names)
    make_certificate(folder, "trainer", "clientAuth")
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    (folder / "tokens").write_text(f"reader {digest}\n")
    (folder / "policy").write_text(POLICY)
    (folder / "token").write_text(TOKEN + "\n")


def start_server(folder):
    """The process, and the port that it listens on."""
    server = subprocess.Popen(
        [
            *("service/tensorkv-server", "--device=cpu", "--budget=64MiB"),
            *("--listen=localhost:0", "--metrics_listen=127.0.0.1:0"),
            *(f"--tls_cert={folder}/server.crt", "--tls_client_auth=optional"),
            f"--tls_key={folder}/server.key",
            f"--tls_client_ca={folder}/ca.crt",
            *(f"--token_file={folder}/tokens", f"--policy_file={folder}/policy"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    said = ""
    for line in server.stderr:
        said += line
        found = re.search(r" ready listen=\S*:(\d+) ", line)
        if found:
            return server, found[1]
    raise RuntimeError(f"the server did not start: {said}")


class CredentialsTest(StoreTest):

    @classmethod
    def setUpClass(cls):
        files = tempfile.TemporaryDirectory()
        cls.addClassCleanup(files.cleanup)
        cls.folder = pathlib.Path(files.name)
        make_files(cls.folder)
        server, port = start_server(cls.folder)
        cls.addClassCleanup(server.stderr.close)
        cls.addClassCleanup(server.wait)
        cls.addClassCleanup(server.terminate)
        cls.address = f"localhost:{port}"
        cls.authority = {"tls_ca": cls.folder / "ca.crt"}
        cls.trainer = {
            **cls.authority,
            "tls_cert": cls.folder / "trainer.crt",
            "tls_key": str(cls.folder / "trainer.key"),
        }

    def connect(self, **options):
        client = tensorkv.Client(self.address, **{"timeout": 20, **options})
        self.addCleanup(client.close)
        return client

    def test_a_certificate_and_a_token_give_their_rights(self):
        trainer = self.connect(**self.trainer)
        trainer.init("w", full(1))
        reader = self.connect(
            **self.authority, token_file=self.folder / "token"
        )
        self.assert_array(reader.pull("w"), full(1))
        with self.assertRaises(tensorkv.PermissionDeniedError) as raised:
            reader.push("w", full(2))
        self.assertEqual(raised.exception.reason, "PERMISSION_DENIED")

    def test_nobody_is_refused(self):
        with self.assertRaises(tensorkv.UnauthenticatedError) as raised:
            self.connect(**self.authority).pull("w")
        self.assertEqual(raised.exception.reason, "UNAUTHENTICATED")

    def test_a_server_that_is_not_the_one_meant_takes_no_calls(self):
        # Which of the two depends on how long a handshake takes.
        with self.assertRaises(
            (tensorkv.UnavailableError, tensorkv.DeadlineExceededError)
        ):
            self.connect(
                **self.trainer, tls_server_name="other", timeout=0.5
            ).pull("w")

    def test_a_worker_joins_with_its_credentials(self):
        store = tensorkv.create(
            "dist_sync", target=self.address, num_workers=1, **self.trainer
        )
        self.addCleanup(store.close)
        store.init("v", full(1))
        store.push("v", full(3))
        self.assert_array(store.pull("v"), full(3))

    def test_files_that_make_no_sense_are_refused(self):
        for options in (
            {"tls_ca": self.folder / "absent"},
            {"tls_ca": self.folder / "token"},
            {**self.authority, "tls_cert": self.folder / "trainer.crt"},
            {"tls_cert": self.folder / "trainer.crt"},
            {**self.authority, "token_file": self.folder / "absent"},
        ):
            with self.subTest(options):
                with self.assertRaises(tensorkv.InvalidArgumentError):
                    self.connect(**options)
        with self.assertRaises(TypeError):
            self.connect(tls_ca=1)


if __name__ == "__main__":
    unittest.main()
