"""Servers of a test's own, which it stops and starts again."""

import pathlib
import re
import signal
import subprocess
import tempfile

BINARY = "service/tensorkv-server"


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
