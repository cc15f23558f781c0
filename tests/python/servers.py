"""Servers of a test's own, which it stops and starts again."""

import pathlib
import re
import signal
import socket
import subprocess
import tempfile

BINARY = "service/tensorkv-server"


def free_address():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{taken.getsockname()[1]}"


class Cluster:
    """Servers of one cluster, with an etcd of their own.

    They are stopped with the test case that they are of.
    """

    def __init__(self, test_case, count=3, options=()):
        folder = tempfile.TemporaryDirectory()
        test_case.addCleanup(folder.cleanup)
        self._test_case = test_case
        etcd, peer = free_address(), f"http://{free_address()}"
        self._run(
            "/usr/bin/etcd",
            f"--data-dir={folder.name}/etcd",
            f"--listen-client-urls=http://{etcd}",
            f"--advertise-client-urls=http://{etcd}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
        )
        addresses = [free_address() for _ in range(count)]
        self._commands = [
            (
                *(BINARY, "--device=cpu", "--budget=64MiB"),
                f"--listen={address}",
                "--metrics_listen=127.0.0.1:0",
                f"--etcd={etcd}",
                f"--server_name=s{number}",
                f"--cluster_size={count}",
                "--cluster_lease=2s",
                *options,
            )
            for number, address in enumerate(addresses)
        ]
        self._processes = [self._run(*command) for command in self._commands]
        self.target = "cluster:" + ",".join(addresses)

    def restart(self, number):
        """Kills that server, and starts it without what it had."""
        self._end(self._processes[number])
        self._processes[number] = self._run(*self._commands[number])

    def _run(self, *command):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._test_case.addCleanup(self._end, process)
        return process

    def _end(self, process):
        process.kill()
        process.wait()


class RestartableServer:
    """A server that keeps its state in a checkpoint, and its address.

    It is stopped with the test case that it is of.
    """

    def __init__(self, test_case):
        folder = tempfile.TemporaryDirectory()
        test_case.addCleanup(folder.cleanup)
        self._folder = pathlib.Path(folder.name)
        # The path of a socket is free again when its server has ended.
        self.address = f"unix:{self._folder}/socket"
        self._process = None
        self.start()
        test_case.addCleanup(self.kill)

    def start(self):
        self._process = subprocess.Popen(
            [
                *(BINARY, "--device=cpu", "--budget=64MiB"),
                f"--listen={self.address}",
                "--metrics_listen=127.0.0.1:0",
                f"--checkpoint_dir={self._folder}/checkpoints",
            ],
            stderr=subprocess.PIPE,
            text=True,
        )
        said = ""
        for line in self._process.stderr:
            said += line
            if re.search(" ready ", line):
                return
        raise RuntimeError(f"the server did not start: {said}")

    def stop(self):
        """Ends the server, which saves its state."""
        self._end(signal.SIGTERM)

    def kill(self):
        """Ends the server, with what it has not saved."""
        self._end(signal.SIGKILL)

    def _end(self, number):
        if self._process is None:
            return
        self._process.send_signal(number)
        # What it still says would else have no room.
        self._process.stderr.read()
        self._process.stderr.close()
        self._process.wait()
        self._process = None

    def restart(self):
        self.stop()
        self.start()
