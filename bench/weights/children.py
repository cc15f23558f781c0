"""Processes of a measurement: what they do on demand, and what they take.

A child is this Python with a program of this folder; it answers calls, each a
line of JSON, by the methods of one object.
"""

import contextlib
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent


class Failed(Exception):
    """A process that is measured has failed; says why in one line."""


def serve(target):
    """What a child does: answers calls of methods of `target`.

    What libraries print goes where errors go.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = {"result": getattr(target, name)(*arguments)}
        except Exception as error:
            traceback.print_exc()
            text = str(error).strip().splitlines()
            reason = text[0] if text else ""
            answer = {"error": f"{type(error).__name__}: {reason}"[:200]}
        print(json.dumps(answer), file=answers)
    # Libraries that wait for others as they end would wait for ever.
    os._exit(0)


class Child:
    """A process that makes calls."""

    def __init__(self, *command, folders=(), log, nice=0):
        """`folders` have the modules that it needs; `log` is what it prints."""
        path = os.pathsep.join(map(str, folders))
        self._log = pathlib.Path(log)
        with open(log, "wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, *map(str, command)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
                preexec_fn=lambda: os.nice(nice),
            )
        self.pid = self._process.pid
        self._rest = b""

    def send(self, name, *arguments):
        line = json.dumps([name, arguments]) + "\n"
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()

    def receive(self, timeout=120):
        """The result of the oldest call. Errors: Failed."""
        end = time.monotonic() + timeout
        answers = self._process.stdout.fileno()
        while b"\n" not in self._rest:
            left = max(0.0, end - time.monotonic())
            if not select.select([answers], [], [], left)[0]:
                raise Failed(f"no answer in {timeout} s")
            read = os.read(answers, 1 << 16)
            if not read:
                raise Failed(f"has ended: {last_line(self._log)}")
            self._rest += read
        line, _, self._rest = self._rest.partition(b"\n")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"])
        return answer["result"]

    def call(self, name, *arguments, timeout=120):
        self.send(name, *arguments)
        return self.receive(timeout)

    def end(self):
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        wait_or_kill(self._process)


def call_all(children, name, *arguments):
    """The results of a call that all make at the same time."""
    for each in children:
        each.send(name, *arguments)
    return [each.receive() for each in children]


class Server:
    """A server, which is ready once its log has what `ready` matches."""

    def __init__(self, *command, log, ready):
        self._log = pathlib.Path(log)
        with open(log, "wb") as file:
            self._process = subprocess.Popen(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
            )
        self.pid = self._process.pid
        try:
            self.ready = self._await(ready)
        except Failed:
            self.end()
            raise

    def _await(self, pattern):
        end = time.monotonic() + 60
        while time.monotonic() < end and self._process.poll() is None:
            found = re.search(pattern, self._log.read_text(errors="replace"))
            if found:
                return found
            time.sleep(0.02)
        raise Failed(f"has not started: {last_line(self._log)}")

    def end(self):
        self._process.send_signal(signal.SIGTERM)
        wait_or_kill(self._process)


def start_ours(binary, folder, *flags):
    """Our server, and its address; ready[2] is that of its metrics."""
    server = Server(
        *(binary, "--device=cpu", "--listen=127.0.0.1:0"),
        *("--metrics_listen=127.0.0.1:0", *flags),
        log=f"{folder}/server",
        ready=r" ready listen=(\S+).* metrics=(\S+)",
    )
    return server, server.ready[1]


def wait_or_kill(process):
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_line(log):
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1][:200] if lines else "it has said nothing"


def descendants(pid):
    """The processes that this one has started, and those that they have."""
    found = []
    for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        for child in map(int, read_or_empty(task).split()):
            found += [child, *descendants(child)]
    return found


def processor_seconds(pids):
    """What processes that run have taken of the processors so far."""
    total = 0.0
    for pid in pids:
        # One that has just ended took little.
        with contextlib.suppress(OSError):
            # The clock of a process: CPUCLOCK_SCHED of linux/posix-timers.h.
            total += time.clock_gettime((~pid << 3) | 2)
    return total


def forget_peaks(pids):
    """Peaks count from now on."""
    for pid in pids:
        with contextlib.suppress(OSError):
            pathlib.Path(f"/proc/{pid}/clear_refs").write_text("5")


def peak_bytes(pids):
    """The most memory that each of them has had, together."""
    total = 0
    for pid in pids:
        status = read_or_empty(pathlib.Path(f"/proc/{pid}/status"))
        peak = re.search(r"VmHWM:\s+(\d+)", status)
        total += int(peak[1]) * 1024 if peak else 0
    return total


def read_or_empty(path):
    try:
        return path.read_text()
    except OSError:
        return ""
