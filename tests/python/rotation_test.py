"""A cluster over TLS whose certificates and tokens are replaced under load.

TENSORKV_ROTATION is how many seconds it takes, 25 unless it is set, and
TENSORKV_AWAY how long a server is away. With 200 and more, files are replaced
every 20 s.
"""

import hashlib
import os
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from servers import BINARY, free_address
from stores import StoreTest, full

SECONDS = float(os.environ.get("TENSORKV_ROTATION", 25))
AWAY = float(os.environ.get("TENSORKV_AWAY", 5))
# Files are read every 2 s, and taken once two reads have found the same.
PERIOD = 20 if SECONDS >= 200 else 8
KEYS = [f"w{i}" for i in range(16)]
SERVER_NAME = ("-addext", "subjectAltName=IP:127.0.0.1")
POLICY = """
grants { callers: "cn:trainer" namespaces: "*" role: ADMIN }
grants { callers: "token:pusher" namespaces: "*" role: ADMIN }
grants { callers: "token:peer" namespaces: "*" role: ADMIN }
"""


class Files:
    """The files of a cluster's servers, its clients and its etcd.

    Each replacement has an authority, certificates and tokens of its own, and
    takes those of the one before and the one after, too.
    """

    NAMES = ("s0", "s1", "s2", "etcd", "trainer")
    REPLACED = (
        *("s0.crt", "s0.key", "s1_at_etcd.crt", "s1_at_etcd.key"),
        *("etcd.crt", "etcd.key", "trainer.crt", "trainer.key", "ca.crt"),
        *("tokens", "policy", "pusher", "peer"),
    )

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self._number = 0
        self._issue_authority("etcd_clients")
        for number in range(2):
            self._issue_authority(f"ca{number}")
        self._write("policy", POLICY)
        self.replace()

    def path(self, name):
        return str(self.folder / name)

    def replace(self):
        """Has all sides use the next certificates and tokens."""
        self._number += 1
        number = self._number
        self._issue_authority(f"ca{number + 1}")
        valid = range(number - 1, number + 2)
        self._write("ca.crt", "".join(self._text(f"ca{i}.crt") for i in valid))
        for name in self.NAMES:
            self._issue(name, f"ca{number}")
        for name in self.NAMES[:3]:
            self._issue(f"{name}_at_etcd", "etcd_clients")
        lines = (
            f"{who} {hashlib.sha256(self._token(who, i).encode()).hexdigest()}"
            for who in ("pusher", "peer")
            for i in valid
        )
        self._write("tokens", "\n".join(lines) + "\n")
        for who in ("pusher", "peer"):
            self._write(who, self._token(who, number) + "\n")

    def damage(self, choice):
        """Makes a file wrong; returns what is wrong, and what mends it."""
        name = choice.choice(self.REPLACED)
        text = self._text(name)
        wrong = {"empty": ""}
        # Half of a token looks like one.
        if name not in ("pusher", "peer"):
            wrong["cut"] = text[: len(text) // 2]
        if name.endswith(".key"):
            wrong["swapped"] = self._text("etcd_clients.key")
        how = choice.choice(sorted(wrong))
        self._write(name, wrong[how])
        return f"{name} {how}", lambda: self._write(name, text)

    @staticmethod
    def _token(who, number):
        return f"{who}-{number}-that-nobody-guesses"

    def _text(self, name):
        return (self.folder / name).read_text()

    def _write(self, name, text):
        (self.folder / name).write_text(text)

    def _openssl(self, *arguments):
        subprocess.run(
            ["openssl", *arguments],
            check=True,
            capture_output=True,
            cwd=self.folder,
        )

    def _issue_authority(self, name):
        self._openssl(
            *"req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256".split(),
            *("-nodes", "-subj", f"/CN={name}"),
            *("-keyout", f"{name}.key", "-out", f"{name}.crt"),
        )

    def _issue(self, name, authority):
        """Puts certificate and key where they are used, one after the other."""
        with tempfile.TemporaryDirectory(dir=self.folder) as made:
            self._openssl(
                *"req -newkey ec -pkeyopt ec_paramgen_curve:P-256".split(),
                *("-nodes", "-subj", f"/CN={name}"),
                *("-keyout", f"{made}/key", "-out", f"{made}/csr"),
                # It would be the name of a client, too.
                *(() if name == "trainer" else SERVER_NAME),
            )
            self._openssl(
                *("x509", "-req", "-in", f"{made}/csr"),
                *("-copy_extensions", "copy", "-out", f"{made}/crt"),
                *("-CA", f"{authority}.crt", "-CAkey", f"{authority}.key"),
            )
            for kind in ("crt", "key"):
                os.replace(f"{made}/{kind}", self.path(f"{name}.{kind}"))


class Load(threading.Thread):
    """Makes one call after another, and keeps how long each has taken."""

    def __init__(self, client, stop):
        super().__init__()
        self.client, self.stop = client, stop
        self.seconds, self.errors = [], []

    def run(self):
        while not self.stop.is_set():
            begin = time.monotonic()
            try:
                self.client.push(KEYS, [full(1)] * len(KEYS))
                self.client.pull(KEYS)
            except tensorkv.Error as error:
                self.errors.append(error)
            self.seconds.append(time.monotonic() - begin)
            # Others have the cores, too.
            self.stop.wait(0.01)


class RotationTest(StoreTest):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.files = Files(folder.name)
        self.servers = []
        path = self.files.path
        etcd, peer = f"https://{free_address()}", f"http://{free_address()}"
        self.run_process(
            *("/usr/bin/etcd", f"--data-dir={folder.name}/data"),
            f"--listen-client-urls={etcd}",
            f"--advertise-client-urls={etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            *(f"--cert-file={path('etcd.crt')}", "--client-cert-auth"),
            f"--key-file={path('etcd.key')}",
            f"--trusted-ca-file={path('etcd_clients.crt')}",
        )
        addresses = [free_address() for _ in range(3)]
        self.logs = []
        for number, address in enumerate(addresses):
            name = f"s{number}"
            # A pipe that nobody reads would fill.
            self.logs.append(path(f"{name}.log"))
            self.servers.append(
                self.run_process(
                    *(BINARY, "--device=cpu", "--budget=64MiB"),
                    *(f"--listen={address}", "--metrics_listen=127.0.0.1:0"),
                    *(f"--tls_cert={path(name)}.crt", f"--etcd={etcd}"),
                    *(f"--tls_key={path(name)}.key", f"--server_name={name}"),
                    *(f"--tls_client_ca={path('ca.crt')}", "--cluster_size=3"),
                    *("--tls_client_auth=optional", "--cluster_lease=10s"),
                    f"--token_file={path('tokens')}",
                    f"--policy_file={path('policy')}",
                    f"--cluster_tls_ca={path('ca.crt')}",
                    f"--cluster_token_file={path('peer')}",
                    f"--etcd_tls_ca={path('ca.crt')}",
                    f"--etcd_tls_cert={path(name)}_at_etcd.crt",
                    f"--etcd_tls_key={path(name)}_at_etcd.key",
                    log=self.logs[-1],
                )
            )
        self.target = "cluster:" + ",".join(addresses)
        authority = {"tls_ca": path("ca.crt")}
        self.trainer = {
            **authority,
            "tls_cert": path("trainer.crt"),
            "tls_key": path("trainer.key"),
        }
        self.pusher = {**authority, "token_file": path("pusher")}
        client = self.connect(self.trainer)
        client.set_rule("accumulate")
        client.init(KEYS, [full(0)] * len(KEYS))

    def connect(self, options, timeout=60):
        return self.open_client(self.target, timeout=timeout, **options)

    def run_process(self, *command, log=os.devnull):
        with open(log, "w") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)

        def end():
            process.kill()
            process.wait()

        self.addCleanup(end)
        return process

    def test_no_call_fails_while_files_are_replaced(self):
        stop = threading.Event()
        loads = [
            Load(self.connect(options), stop)
            for options in (self.trainer, self.pusher)
        ]
        for load in loads:
            load.start()
        begin = time.monotonic()
        choice = random.Random(33)
        damages, num_replaced = [], 0
        while time.monotonic() - begin + PERIOD < SECONDS:
            self.files.replace()
            num_replaced += 1
            # The new files are taken meanwhile; then some are wrong.
            stop.wait(PERIOD * 0.6)
            what, mend = self.files.damage(choice)
            damages.append(what)
            stop.wait(PERIOD * 0.3)
            mend()
            stop.wait(PERIOD * 0.1)
        stop.set()
        for load in loads:
            load.join()
        took = [each for load in loads for each in load.seconds]
        print(
            f"{time.monotonic() - begin:.0f} s, replaced {num_replaced} times; "
            f"wrong: {', '.join(damages)}; {len(took)} pushes and pulls, "
            f"the slowest {max(took):.2f} s"
        )
        self.assertEqual([each for load in loads for each in load.errors], [])
        for log in self.logs:
            said = pathlib.Path(log).read_text()
            self.assertGreaterEqual(
                said.count("count as they are now"), num_replaced
            )
        # Each push counts once.
        for value in self.connect(self.trainer).pull(KEYS):
            self.assert_array(value, full(len(took)))

    def test_a_server_that_was_away_is_used_again_within_5_s(self):
        client = self.connect(self.pusher)
        client.pull(KEYS)
        self.servers[1].send_signal(signal.SIGSTOP)
        # Some of its threads may go on until then.
        os.waitid(os.P_PID, self.servers[1].pid, os.WSTOPPED)
        begin = time.monotonic()
        while time.monotonic() - begin < AWAY:
            # Its keys are asked for all the time, by who gives up soon.
            with self.assertRaises(tensorkv.Error):
                client.pull(KEYS, timeout=1)
        self.servers[1].send_signal(signal.SIGCONT)
        begin = time.monotonic()
        client.pull(KEYS)
        seconds = time.monotonic() - begin
        print(f"away for {AWAY:.0f} s, used again after {seconds:.2f} s")
        self.assertLess(seconds, 5)


if __name__ == "__main__":
    unittest.main()
