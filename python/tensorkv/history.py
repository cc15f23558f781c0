"""What a training did, step by step, as numbers, a file or a picture."""

import csv
import json
import time
from math import isfinite
from os import PathLike, fspath
from typing import Any, Dict, List, Optional, Union

from tensorkv._progress import progress_bar
from tensorkv.client import Client
from tensorkv.kvstore import KVStore

_COLUMNS = (
    "step",
    "seconds",
    "loss",
    "lag",
    "bytes_sent",
    "bytes_received",
)


def _without_nan(columns: Dict[str, List[Any]]) -> Dict[str, List[Any]]:
    return {
        name: [
            None if isinstance(value, float) and not isfinite(value) else value
            for value in column
        ]
        for name, column in columns.items()
    }


class History:
    """Records, whenever a training says so, how far it is.

    A record has:
      step: as given, or one more than that of the record before.
      seconds: since the history was made.
      loss: as given.
      lag: how many steps the last live worker of the namespace is behind the
        first.
      bytes_sent, bytes_received: of arrays, by this store's calls since the
        record before; 0 for a store in the process.

    For one thread at a time.
    """

    def __init__(
        self,
        store: Union[Client, KVStore],
        *,
        progress: bool = False,
        num_steps: Optional[int] = None,
    ):
        """Begins now.

        Args:
          progress: shows a bar of tqdm with the last record, where that package
            is installed. It ends with `close`.
          num_steps: of the training, if that is known.
        """
        self._client = store.client if isinstance(store, KVStore) else store
        self._begin = time.monotonic()
        self._traffic = self._client._store.traffic
        self._columns: Dict[str, List[Any]] = {name: [] for name in _COLUMNS}
        self._bar: Any = None
        if progress:
            self._bar = progress_bar("training", num_steps, "step")

    def record(self, loss: float, step: Optional[int] = None) -> None:
        """Adds a record. Errors: those of `describe_namespace`."""
        steps = self._columns["step"]
        if step is None:
            step = steps[-1] + 1 if steps else 1
        lag = self._lag()
        before, self._traffic = self._traffic, self._client._store.traffic
        sent = self._traffic[0] - before[0]
        received = self._traffic[1] - before[1]
        seconds = time.monotonic() - self._begin
        record = (step, seconds, float(loss), lag, sent, received)
        for name, value in zip(_COLUMNS, record):
            self._columns[name].append(value)
        if self._bar is not None:
            self._bar.set_postfix(loss=float(loss), lag=lag)
            self._bar.update(step - self._bar.n)

    def close(self) -> None:
        """Ends the progress bar; what is recorded stays."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def as_dict(self) -> Dict[str, List[Any]]:
        """A list of each kind of number, one element per record."""
        return {name: list(values) for name, values in self._columns.items()}

    def save(self, path: Union[str, "PathLike[str]"]) -> None:
        """Writes what `as_dict` gives: CSV, or JSON where the name says so.

        JSON has null for a loss that is not finite.

        Errors: OSError, and ValueError for a name that ends with neither
        ".csv" nor ".json".
        """
        name = fspath(path)
        if not name.endswith((".csv", ".json")):
            raise ValueError(f"path: expected .csv or .json, got {name!r}")
        with open(path, "w", encoding="utf-8", newline="") as file:
            if name.endswith(".json"):
                json.dump(_without_nan(self._columns), file, allow_nan=False)
                return
            writer = csv.writer(file)
            writer.writerow(_COLUMNS)
            writer.writerows(zip(*self._columns.values()))

    def plot(self) -> Any:
        """A figure of Matplotlib: loss, lag and bytes over the steps.

        Errors: ImportError without the package matplotlib.
        """
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6.4, 7.2), layout="constrained")
        loss, lag, traffic = figure.subplots(3, sharex=True)
        steps = self._columns["step"]
        for axes, title, names in (
            (loss, "loss", ["loss"]),
            (lag, "lag in steps", ["lag"]),
            (traffic, "bytes", ["bytes_sent", "bytes_received"]),
        ):
            for name in names:
                axes.plot(steps, self._columns[name], label=name)
            axes.set_ylabel(title)
        traffic.legend()
        traffic.set_xlabel("step")
        return figure

    def _lag(self) -> int:
        workers = self._client.describe_namespace()["workers"]
        steps = [worker["step"] for worker in workers if worker["is_live"]]
        return max(steps) - min(steps) if steps else 0
