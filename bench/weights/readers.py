#!/usr/bin/python3
"""Times what one process publishes until three others have it, by what people
use.

  bench/weights/readers.py --ours=PACKAGE --server=BINARY \
      --libraries=FOLDER --ray=FOLDER --mooncake=FOLDER

PACKAGE is the folder that has tensorkv/, and the others are those that pip
installs into by --target (or site-packages of an environment): safetensors and
redis[hiredis], unless Python has them; ray; mooncake-transfer-engine-non-cuda.
What is not there, does not start or fails is told as "not run". redis-server
and torch are Debian's.

One publisher and readers are processes of this machine. A model of 301 tensors
is published as f32 and as bf16, and all of it changes each time; "ours,
changes" publishes bf16 of an f32 master to which lr * normal is added, and its
readers keep what they have. The seconds are from the start of publishing until
the last reader has the values in tensors of its own; whether they are right is
checked afterwards, by a checksum. Systems are measured in turns. Told are the
median, the least and the most; the most memory of the server's processes (of
safetensors and ray, with the values once, which are in shared memory); seconds
of the processors of server, publisher and readers; and how many times as long
as ours it took in the same turn, median of the turns.
"""

import argparse
import contextlib
import pathlib
import shutil
import statistics
import tempfile

import children
from children import Child, Failed, Server, call_all
from systems import HERE as SYSTEMS
from systems import ROLES, free_port

DTYPES = {"f32": "float32", "bf16": "bfloat16"}


class Session:
    """A system that runs: its server if it has one, publisher and readers."""

    def __init__(self, kind, options, folder, stack):
        self.kind = kind
        self.options = options
        self.folder = folder
        self.stack = stack
        self.server_pids = []
        self.address = ""
        getattr(self, f"_start_{kind}")()
        self._start_roles()

    def begin(self, dtype, series):
        megabytes = self.options.megabytes
        everyone = [self.publisher, *self.readers]
        call_all(everyone, "begin", megabytes, dtype, series)

    def exchange(self, number, learning_rate):
        """Publishes a state. Returns seconds, and those of the processors."""
        expected = self.publisher.call("prepare", learning_rate)
        before = self._used()
        begin, ends = self._exchange(number)
        used = [b - a for a, b in zip(before, self._used())]
        if any(each != expected for each in self._checksums()):
            raise Failed("a reader has other values")
        return max(ends) - begin, used

    def peak(self):
        return children.peak_bytes(self.server_pids)

    def forget_peak(self):
        children.forget_peaks(self.server_pids)

    def clear(self):
        self.publisher.call("clear")

    def _exchange(self, number):
        waits = ROLES[self.kind].waits
        if waits:
            for each in self.readers:
                each.send("timed_fetch", number)
        begin, _ = self.publisher.call("timed_publish", number)
        if not waits:
            for each in self.readers:
                each.send("timed_fetch", number)
        return begin, [each.receive() for each in self.readers]

    def _checksums(self):
        return call_all(self.readers, "checksum")

    def _used(self):
        groups = self.server_pids, self.publisher_pids, self.reader_pids
        return [children.processor_seconds(each) for each in groups]

    def _start_roles(self):
        count = self.options.readers
        roles = [("publisher", 0), *(("reader", i) for i in range(count))]
        self.publisher, *self.readers = [
            self._child(*role, log=f"{role[0]}{role[1]}") for role in roles
        ]
        self.publisher_pids = [self.publisher.pid]
        self.reader_pids = [each.pid for each in self.readers]

    def _child(self, role, rank, log):
        return self._enter(
            Child(
                *(SYSTEMS, self.kind, role, self.address, rank),
                folders=folders_of(self.kind, self.options),
                log=f"{self.folder}/{log}",
            )
        )

    def _enter(self, process):
        self.stack.callback(process.end)
        return process

    def _start_ours(self):
        server, self.address = children.start_ours(
            self.options.server, self.folder
        )
        self._enter(server)
        self.server_pids = [server.pid]

    def _start_safetensors(self):
        files = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.address = self.stack.enter_context(files)

    def _start_gloo(self):
        self.address = f"{self.folder}/store|{1 + self.options.readers}"

    def _start_redis(self):
        binary = shutil.which("redis-server")
        if binary is None:
            raise Failed("there is no redis-server")
        port = free_port()
        server = self._enter(
            Server(
                *(binary, "--port", port, "--bind", "127.0.0.1"),
                *("--save", "", "--appendonly", "no"),
                log=f"{self.folder}/redis",
                ready="eady to accept connections",
            )
        )
        self.address = str(port)
        self.server_pids = [server.pid]

    def _start_mooncake(self):
        folder = pathlib.Path(folders_of("mooncake", self.options)[0])
        port = free_port()
        master = self._enter(
            Server(
                *(folder / "mooncake/mooncake_master", f"--rpc_port={port}"),
                f"--metrics_port={free_port()}",
                log=f"{self.folder}/master",
                ready="(?i)master service (started|listening)|Starting",
            )
        )
        self.address = str(port)
        # It has the memory, as a server has.
        storage = self._child("storage", -1, log="storage")
        self.server_pids = [master.pid, storage.pid]


class RaySession(Session):
    """Actors, in place of processes that this one has started."""

    def _start_ray(self):
        """Comes with the actors."""

    def _start_roles(self):
        driver = self._enter(
            Child(
                *(SYSTEMS, "ray", self.options.readers),
                folders=folders_of("ray", self.options),
                log=f"{self.folder}/driver",
            )
        )
        self.publisher, self.readers = driver, []
        pids = driver.call("pids")
        self.publisher_pids, self.reader_pids = pids[:1], pids[1:]
        tree = [driver.pid, *children.descendants(driver.pid)]
        self.server_pids = [pid for pid in tree if pid not in pids]

    def _exchange(self, number):
        return self.publisher.call("exchange", number)

    def _checksums(self):
        return self.publisher.call("checksums")

    def clear(self):
        """What nobody has a reference to goes."""


def folders_of(kind, options):
    """Where the modules of a system are. Errors: Failed."""
    option = {
        "ours": "ours",
        "safetensors": "libraries",
        "redis": "libraries",
        "ray": "ray",
        "mooncake": "mooncake",
    }.get(kind)
    if option is None:
        return []
    folder = getattr(options, option)
    if folder is not None:
        return [pathlib.Path(folder).resolve()]
    if option in ("ray", "mooncake"):
        raise Failed(f"--{option} was not given")
    return []


def rows_of(kind):
    """Name, dtype and learning rate of what a system is measured with."""
    if kind == "ours":
        yield "ours, changes", "bf16", 1e-6
    yield kind, "bf16", 0
    yield kind, "f32", 0


def measure(kind, options):
    """Seconds and what was taken, of each publishing of each row."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        session = (RaySession if kind == "ray" else Session)(
            kind, options, folder, stack
        )
        number = 0
        for name, dtype, learning_rate in rows_of(kind):
            session.begin(DTYPES[dtype], f"{name}-{dtype}".replace(", ", "-"))
            session.forget_peak()
            found = []
            for i in range(1 + options.publishings):
                number += 1
                each = session.exchange(number, learning_rate)
                # The first makes what later ones find.
                if i > 0:
                    found.append(each)
            size = session.publisher.call("size_bytes")
            # The values are in shared memory, which is no server's.
            shared = size if kind in ("safetensors", "ray") else 0
            peak = shared + session.peak()
            session.clear()
            yield name, dtype, size, peak, found


class Table:
    """What was measured, by name and dtype."""

    def __init__(self):
        self._rows = {}
        self._sizes = {}
        self._failed = {}

    def add(self, name, dtype, size, peak, found):
        self._sizes[dtype] = size
        self._rows.setdefault((name, dtype), []).append((peak, found))

    def add_failed(self, name, why):
        self._failed[name] = why

    def print(self):
        for dtype, size in sorted(self._sizes.items(), key=lambda row: row[1]):
            print(f"\n{size / 1e6:.0f} MB of {dtype}")
            print(
                f"{'':14} {'s':>6} {'least':>6} {'most':>6} {'MB':>6} "
                f"{'server':>7} {'publisher':>9} {'readers':>8} {'/ ours':>7}"
            )
            for name, of in self._rows:
                if of == dtype:
                    print(self._line(name, dtype))
        for name, why in self._failed.items():
            print(f"{name}: not run: {why}")

    def _line(self, name, dtype):
        turns = self._rows[name, dtype]
        all_found = [each for _, found in turns for each in found]
        seconds = [each for each, _ in all_found]
        used = [
            statistics.median(each[i] for _, each in all_found)
            for i in range(3)
        ]
        peak = max(peak for peak, _ in turns) / 1e6
        return (
            f"{name:14} {statistics.median(seconds):6.2f} {min(seconds):6.2f} "
            f"{max(seconds):6.2f} {peak:6.0f} {used[0]:7.2f} {used[1]:9.2f} "
            f"{used[2]:8.2f} {self._ratio(turns, dtype):>7}"
        )

    def _ratio(self, turns, dtype):
        """Beside ours of the same turn."""
        own = self._rows.get(("ours", dtype), [])
        ratios = [
            statistics.median(s for s, _ in found)
            / statistics.median(s for s, _ in ours)
            for (_, found), (_, ours) in zip(turns, own)
        ]
        return f"{statistics.median(ratios):.2f}" if ratios else "-"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ours", required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--libraries")
    parser.add_argument("--ray")
    parser.add_argument("--mooncake")
    parser.add_argument("--readers", type=int, default=3)
    parser.add_argument(
        "--megabytes", type=float, default=499, help="of the model as f32"
    )
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--publishings", type=int, default=1, help="in a turn")
    parser.add_argument("--only", help="systems, with commas between them")
    options = parser.parse_args()
    kinds = [*ROLES, "ray"]
    if options.only:
        kinds = options.only.split(",")
    table = Table()
    failed = set()
    for _ in range(options.turns):
        for kind in kinds:
            if kind in failed:
                continue
            try:
                for row in measure(kind, options):
                    table.add(*row)
            except Failed as error:
                failed.add(kind)
                table.add_failed(kind, error)
    table.print()


if __name__ == "__main__":
    main()
