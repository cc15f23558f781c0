#!/usr/bin/python3
"""Times the exchange of federated rounds: ours beside Flower's and NVFlare's.

  bench/federated/exchange.py --ours=PACKAGE --server=BINARY \
      --flower=FOLDER --nvflare=FOLDER

The folders are those that pip installs into by --target, and PACKAGE is the one
that has tensorkv/. Clients are processes that give back the model that they
get, an array of f32, without training; all run on this machine, by turns, each
with what it does by default. What is told is of the rounds after the first:
seconds of a round; the most memory of the server's processes together; seconds
of the processors for a round, of the server and of the clients.

"flower" starts a process for each message to a client, and "nvflare" is its
simulator, whose clients are processes that poll. "ours in flower" is Flower
with the arrays by tensorkv.flower.
"""

import argparse
import contextlib
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
TICK = os.sysconf("SC_CLK_TCK")


def client(address, megabytes, clients, rounds, marks):
    """A client of ours, in a process of its own; the first one writes marks."""
    import numpy as np
    import tensorkv
    from tensorkv.federated import FederatedAveraging

    averaging = FederatedAveraging(
        {"w": np.ones(int(megabytes) * 10**6 // 4, "float32")},
        tensorkv.Client(address, namespace="exchange", timeout=600),
        num_clients=int(clients),
        sum_order="arrival",
    )
    is_first = averaging._client.rank == 0
    while averaging.round < int(rounds):
        averaging.average()
        if is_first:
            with open(marks, "a") as file:
                file.write(f"{time.time()}\n")
    averaging.leave()


class Processes:
    """What the processes of a run take, from when it began."""

    def __init__(self, is_server):
        """`is_server(pid, command)` says which are the server's."""
        self._is_server = is_server
        self._kinds, self._peaks, self._seconds = {}, {}, {}
        # Of times, the seconds of server and clients until then.
        self._history = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def peak_of_server(self):
        return sum(
            peak for pid, peak in self._peaks.items() if self._kinds[pid]
        )

    def seconds_between(self, begin, end):
        """Of the server, and of the clients."""
        at = [
            next((s for t, s in self._history if t >= wanted), None)
            or self._history[-1][1]
            for wanted in (begin, end)
        ]
        return [last - first for first, last in zip(*at)]

    def _watch(self):
        while not self._ended.wait(0.05):
            self._look()

    def _look(self):
        parents = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                stat = (folder / "stat").read_text()
                fields = stat.rpartition(")")[2].split()
                parents[int(folder.name)] = int(fields[1]), fields
        for pid, (_, fields) in parents.items():
            above = pid
            while above not in (0, os.getpid()) and above in parents:
                above = parents[above][0]
            if above != os.getpid() or pid == above:
                continue
            with contextlib.suppress(OSError):
                self._take(pid, fields)
        sums = [0.0, 0.0]
        for pid, seconds in self._seconds.items():
            sums[not self._kinds[pid]] += seconds
        self._history.append((time.time(), sums))

    def _take(self, pid, fields):
        folder = pathlib.Path(f"/proc/{pid}")
        # A process becomes another program after it was forked.
        command = (folder / "cmdline").read_bytes().decode().split("\0")
        self._kinds[pid] = self._is_server(pid, " ".join(command))
        self._seconds[pid] = (int(fields[11]) + int(fields[12])) / TICK
        peak = re.search(r"VmHWM:\s+(\d+)", (folder / "status").read_text())
        if peak:
            self._peaks[pid] = int(peak[1]) * 1024


def environment(*folders, **more):
    path = os.pathsep.join(map(str, folders))
    return {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1", **more}


class Run:
    """Processes of a run, which end with it."""

    def __init__(self, options, folder):
        self.options = options
        self.folder = folder
        self.marks = f"{folder}/marks"
        self.started = []

    def start(self, *command, env, log):
        with open(f"{self.folder}/{log}", "wb") as file:
            process = subprocess.Popen(
                list(map(str, command)),
                stdout=file,
                stderr=subprocess.STDOUT,
                env=env,
                cwd=self.folder,
            )
        self.started.append(process)
        return process

    def await_line(self, log, pattern):
        end = time.monotonic() + 120
        while time.monotonic() < end:
            found = re.search(
                pattern, pathlib.Path(f"{self.folder}/{log}").read_text()
            )
            if found:
                return found
            time.sleep(0.1)
        raise RuntimeError(f"{log}: nothing like {pattern} in 120 s")

    def await_rounds(self, number):
        """The times at which rounds have ended, the first included."""
        end = time.monotonic() + self.options.timeout
        while time.monotonic() < end:
            with contextlib.suppress(OSError):
                times = list(map(float, open(self.marks)))
                if len(times) >= number:
                    return times[:number]
            if any(each.poll() for each in self.started):
                raise RuntimeError("a process has ended with an error")
            time.sleep(0.05)
        raise RuntimeError(f"no {number} rounds in {self.options.timeout} s")

    def end(self):
        for each in reversed(self.started):
            each.send_signal(signal.SIGINT)
        for each in self.started:
            try:
                each.wait(20)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()


def start_our_server(run):
    server = run.start(
        *(run.options.server, "--device=cpu", "--listen=127.0.0.1:0"),
        *("--metrics_listen=127.0.0.1:0",),
        env=os.environ,
        log="server",
    )
    return server, run.await_line("server", r" ready listen=(\S+)")[1]


def ours(run):
    options = run.options
    server, address = start_our_server(run)
    for i in range(options.clients):
        run.start(
            *(sys.executable, __file__, "--client", address),
            *(options.megabytes, options.clients, options.rounds, run.marks),
            env=environment(options.ours),
            log=f"client{i}",
        )
    return lambda pid, command: pid == server.pid


def flower(run, target=None):
    options = run.options
    more = {"FLWR_HOME": run.folder}
    folders = [options.flower]
    if target is not None:
        more["TENSORKV_TARGET"] = target
        folders.append(options.ours)
    env = environment(*folders, **more)
    env["PATH"] = f"{options.flower}/bin:{env['PATH']}"
    port = options.port
    pathlib.Path(f"{run.folder}/config.toml").write_text(
        '[superlink]\ndefault = "local"\n[superlink.local]\n'
        f'address = "127.0.0.1:{port}"\ninsecure = true\n'
    )

    def start(name, *arguments, log):
        return run.start(
            *(sys.executable, f"{options.flower}/bin/{name}", *arguments),
            env=env,
            log=log,
        )

    start(
        *("flower-superlink", "--insecure", "--host=127.0.0.1"),
        *(f"--port={port}", "--disable-runtime-dependency-installation"),
        log="superlink",
    )
    run.await_line("superlink", "startup complete")
    for i in range(options.clients):
        start(
            *("flower-supernode", "--insecure", "--host=127.0.0.1"),
            *(f"--superlink=127.0.0.1:{port}", f"--port={port + 1 + i}"),
            log=f"supernode{i}",
        )
    start(
        *("flwr", "run", HERE / "flower_app", "local", "--stream", "-c"),
        f"clients={options.clients} megabytes={options.megabytes} "
        f'rounds={options.rounds} marks="{run.marks}"',
        log="run",
    )
    of_server = re.compile(
        r"flower-superlink|flwr-serverapp|superexec.*serverapp|tensorkv-server"
    )
    return lambda pid, command: bool(of_server.search(command))


def ours_in_flower(run):
    return flower(run, start_our_server(run)[1])


def nvflare(run):
    options = run.options
    run.start(
        *(sys.executable, HERE / "nvflare_job.py", run.folder),
        *(options.megabytes, options.clients, options.rounds, run.marks),
        env=environment(options.nvflare),
        log="job",
    )
    return lambda pid, command: "simulator_worker" not in command


def measure(kind, options):
    """Seconds of a round, peak of the server, processors' seconds."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(options, folder)
        is_server = []
        try:
            with Processes(
                lambda *process: is_server[0](*process) if is_server else True
            ) as processes:
                is_server.append(kind(run))
                times = run.await_rounds(options.rounds)
            seconds = (times[-1] - times[0]) / (len(times) - 1)
            used = processes.seconds_between(times[0], times[-1])
            return [
                seconds,
                processes.peak_of_server() / 1e6,
                *(each / (len(times) - 1) for each in used),
            ]
        except RuntimeError:
            for log in pathlib.Path(folder).iterdir():
                if log.is_file() and log.stat().st_size < 10**6:
                    print(f"--- {log.name}", log.read_text()[-2000:])
            raise
        finally:
            run.end()


def main():
    if sys.argv[1:2] == ["--client"]:
        client(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--flower")
    parser.add_argument("--nvflare")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--port", type=int, default=18091)
    parser.add_argument("--timeout", type=float, default=900)
    options = parser.parse_args()
    kinds = {"ours": ours}
    if options.flower:
        kinds.update({"flower": flower, "ours in flower": ours_in_flower})
    if options.nvflare:
        kinds["nvflare"] = nvflare
    best = {}
    for _ in range(options.repeats):
        for name, kind in kinds.items():
            try:
                found = measure(kind, options)
            except RuntimeError as error:
                print(f"{name}: {error}", flush=True)
                continue
            best[name] = min(found, best.get(name, found))
            seconds, peak, of_server, of_clients = found
            print(
                f"{name}: {seconds:.2f} s a round, {peak:.0f} MB of the server "
                f"at most, {of_server:.2f} s of processors in the server and "
                f"{of_clients:.2f} in the clients",
                flush=True,
            )
    for name, found in best.items():
        own = best["ours"]
        ratios = found[0] / own[0], found[1] / own[1]
        of_processors = sum(found[2:]) / sum(own[2:])
        print(
            f"{name} / ours: {ratios[0]:.1f} of the time, {ratios[1]:.1f} of "
            f"the server's memory, {of_processors:.1f} of the processors"
        )


if __name__ == "__main__":
    main()
