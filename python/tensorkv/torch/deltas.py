"""Directories of weight deltas, as SGLang, miles and slime have them.

A directory has a folder such as weight_v000007 for each version: a whole
checkpoint in the layout of Hugging Face, or a delta against the version before.
A delta has safetensors files, and model.safetensors.index.json, whose
"metadata" say version, base_version, delta_encoding, compression_format and
checksum_format. Its tensors are bytes: of each tensor that has changed what is
compressed, with the checksum of the whole new tensor in the metadata of its
file. Version 0 is the checkpoint that engines are started with, and is not in
the directory.

The three have the same format. It is described and written in THUDM/slime,
commit 624b824a, "Delta weight sync" of its documentation and
slime/backends/megatron_utils/update_weight/update_weight_from_disk_delta.py;
written in radixark/miles, commit 31f1ca96,
miles/backends/megatron_utils/update_weight/update_weight_from_distributed/delta.py;
and read in sgl-project/sglang, commit 01d5bfe5,
python/sglang/srt/weight_sync/local_checkpoint.py, where
`POST /pull_weights` has an engine apply it.

This needs the packages safetensors and zstandard.
"""

from __future__ import annotations

import glob
import hashlib
import importlib
import json
import os
import re
import shutil
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import numpy as np
import safetensors
import safetensors.numpy
import safetensors.torch
import torch
import zstandard

from tensorkv._types import NDArray
from tensorkv.client import Client
from tensorkv.errors import (
    DataLossError,
    FailedPreconditionError,
    InvalidArgumentError,
    SnapshotLostError,
    SnapshotNotFoundError,
)
from tensorkv.torch._tensors import Store, client_of
from tensorkv.torch.publishing import Publisher, Reader

Path = Union[str, "os.PathLike[str]"]

_State = Dict[str, torch.Tensor]

_WEIGHTS = "model.safetensors"
_DELTAS = "model-00000-of-00001.safetensors"
_INDEX = "model.safetensors.index.json"

# What the three have: of other levels the bytes are hardly fewer.
_LEVEL = 1

# In the index of a version: the number of the snapshot that it is, and a digest
# of all of it. Others do not look at them.
_NUMBER = "tensorkv_number"
_STATE = "tensorkv_state"

# In the metadata of a snapshot: it is that version of a directory.
_VERSION = "weight_version"


def export_deltas(
    store: Store,
    directory: Path,
    checkpoint: Path,
    series: str = "published",
    *,
    number: Optional[int] = None,
    timeout: Optional[float] = None,
) -> int:
    """Writes a state of a series as the next version of a directory.

    It is a delta if the state of the version before can still be read, to the
    bit, and has the same tensors: so let the series keep two states or more.
    For the first version that is `checkpoint`. Else it is a whole checkpoint,
    with which readers begin anew. There is all of a version or none of it. A
    directory has one writer at a time, which has both states in its memory.

    Args:
      store: as tensorkv.torch.Publisher has it.
      directory: is made if it is not there.
      checkpoint: a folder with that of which engines were started, which is
        version 0. A version that is whole has its other files, such as
        config.json.
      series: what a Publisher publishes.
      number: of the state; without it the latest.
      timeout: seconds for each state that is read, in place of the client's.

    Returns:
      The version; that of the last one if that was this state.

    Errors: those of tensorkv.torch.Reader.fetch; OSError.
    """
    directory, checkpoint = os.fspath(directory), os.fspath(checkpoint)
    reader = Reader(store, series)
    state = reader.fetch(number=number, timeout=timeout)
    last = _last_version(directory)
    before = _metadata_of(directory, last) if last else {}
    digest = _digest(state)
    if before.get(_STATE) == digest:
        return last
    if last:
        base = _written(Reader(store, series), before, timeout)
    else:
        base = _load(checkpoint)
    version = last + 1
    partial = os.path.join(directory, f".{_folder(version)}")
    shutil.rmtree(partial, ignore_errors=True)
    os.makedirs(partial)
    metadata = {
        "version": f"{version:06d}",
        _NUMBER: str(reader.number),
        _STATE: digest,
    }
    if _layout(base) == _layout(state):
        _write_delta(partial, state, base, metadata)
    else:
        _write_whole(partial, state, checkpoint, metadata)
    _persist(partial)
    os.rename(partial, os.path.join(directory, _folder(version)))
    return version


def import_deltas(
    store: Store,
    directory: Path,
    checkpoint: Optional[Path] = None,
    series: str = "published",
    *,
    version: Optional[int] = None,
    keep_last: Optional[int] = 1,
    timeout: Optional[float] = None,
) -> int:
    """Publishes a version of a directory, with its number.

    Begins with the version that was imported last, if the series still has it
    and there is no whole checkpoint after it, else with the last whole
    checkpoint, which may be version 0, and applies the deltas from there on.
    Checksums are compared. What is published is whole.

    Args:
      store: as tensorkv.torch.Publisher has it.
      checkpoint: a folder with version 0; without it some version is to be
        whole.
      series: this is its one publisher.
      version: without it the last one.
      keep_last: as Publisher has it.
      timeout: seconds for each state that is read or published.

    Returns:
      The version; 0 if there is none.

    Errors: DataLossError for a version that is damaged, or does not fit those
    before it; FailedPreconditionError where the series has a later one;
    InvalidArgumentError for formats that are not known, and where there is no
    whole checkpoint to begin with; OSError; those of Publisher.publish and
    Reader.fetch.
    """
    directory = os.fspath(directory)
    target = _last_version(directory) if version is None else version
    imported = _imported(client_of(store), series)
    if target < imported:
        raise FailedPreconditionError(
            f"series {series!r}: expected a version from {imported} on, which "
            f"it has, got {target} of {directory}; a directory that was begun "
            "anew is another series"
        )
    if target == imported:
        return target
    begin = target
    while begin > imported and _is_delta(directory, begin):
        begin -= 1
    if begin == 0 and checkpoint is None:
        raise InvalidArgumentError(
            f"{directory}: expected a version that is whole, or `checkpoint`, "
            "got deltas alone"
        )
    if begin and begin == imported:
        state = Reader(store, series).fetch(number=begin, timeout=timeout)
    else:
        folder = os.path.join(directory, _folder(begin))
        state = _load(folder if begin else os.fspath(checkpoint or ""))
    for each in range(begin + 1, target + 1):
        _apply(state, directory, each)
    return Publisher(store, series, keep_last).publish(
        state, target, metadata={_VERSION: target}, timeout=timeout
    )


def _folder(version: int) -> str:
    return f"weight_v{version:06d}"


def _last_version(directory: str) -> int:
    """The last version that has been written to its end; 0: there is none."""
    versions = [0]
    every = os.path.join(glob.escape(directory), "weight_v*", "model*")
    for path in glob.glob(every):
        folder, name = os.path.split(path)
        match = re.fullmatch(r"weight_v(\d{6,})", os.path.basename(folder))
        # The index comes last.
        if match and name in (_INDEX, _WEIGHTS):
            versions.append(int(match[1]))
    return max(versions)


def _index_of(folder: str) -> Dict[str, Any]:
    """The index of a folder; an empty one if there is none."""
    try:
        with open(os.path.join(folder, _INDEX), encoding="utf-8") as file:
            index = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise _damaged(folder, f"its index: {error}") from error
    return dict(index)


def _metadata_of(directory: str, version: int) -> Dict[str, str]:
    folder = os.path.join(directory, _folder(version))
    return dict(_index_of(folder).get("metadata", {}))


def _is_delta(directory: str, version: int) -> bool:
    """Errors: FileNotFoundError where the version is not there."""
    folder = os.path.join(directory, _folder(version))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"{folder}: there is no such version")
    return "delta_encoding" in _metadata_of(directory, version)


def _load(folder: str) -> _State:
    """The tensors of a whole checkpoint."""
    names = _index_of(folder).get("weight_map", {}).values()
    paths = [os.path.join(folder, name) for name in sorted(set(names))]
    state: _State = {}
    every = os.path.join(glob.escape(folder), "*.safetensors")
    for path in paths or glob.glob(every):
        state.update(safetensors.torch.load_file(path))
    return state


def _written(
    reader: Reader, metadata: Dict[str, str], timeout: Optional[float]
) -> _State:
    """The state that a version is; an empty one if it cannot be read."""
    if _NUMBER not in metadata:
        return {}
    try:
        state = reader.fetch(number=int(metadata[_NUMBER]), timeout=timeout)
    except (SnapshotLostError, SnapshotNotFoundError):
        return {}
    # Of a server that was restarted the number may be of another state.
    return state if _digest(state) == metadata[_STATE] else {}


def _imported(client: Client, series: str) -> int:
    """The version that was imported last; 0 if the series has none."""
    try:
        status = client.describe_snapshot(series)
    except (SnapshotLostError, SnapshotNotFoundError):
        return 0
    return status.number if _VERSION in status.metadata else 0


def _layout(state: _State) -> Dict[str, Tuple[torch.dtype, Tuple[int, ...]]]:
    return {name: (t.dtype, tuple(t.shape)) for name, t in state.items()}


def _bytes_of(tensor: torch.Tensor) -> NDArray:
    memory: NDArray = tensor.reshape(-1).view(torch.uint8).numpy()
    return memory


def _adler32(data: Any) -> str:
    return f"{zlib.adler32(data):08x}"


def _digest(state: _State) -> str:
    checksums = _map(lambda _, each: _adler32(_bytes_of(each)), state)
    return hashlib.sha256(
        json.dumps(checksums, sort_keys=True).encode()
    ).hexdigest()


def _map(function: Callable[[str, Any], Any], items: Dict[str, Any]) -> Any:
    """What a function makes of each name and value, on all cores."""
    # NumPy and zstd let go of the GIL.
    with ThreadPoolExecutor(min(32, os.cpu_count() or 1)) as pool:
        return dict(zip(items, pool.map(function, items, items.values())))


def _write_delta(
    folder: str, state: _State, base: _State, metadata: Dict[str, str]
) -> None:
    def encode(name: str, tensor: torch.Tensor) -> Optional[NDArray]:
        changes = _bytes_of(tensor) ^ _bytes_of(base[name])
        if not changes.any():
            return None
        compressor = zstandard.ZstdCompressor(_LEVEL)
        compressed = compressor.compress(changes.data)
        return np.frombuffer(compressed, np.uint8)

    deltas = {
        name: delta
        for name, delta in _map(encode, state).items()
        if delta is not None
    }
    if deltas:
        checksums = {name: _adler32(_bytes_of(state[name])) for name in deltas}
        path = os.path.join(folder, _DELTAS)
        safetensors.numpy.save_file(deltas, path, checksums)
    metadata["base_version"] = f"{int(metadata['version']) - 1:06d}"
    metadata["delta_encoding"] = "xor"
    metadata["compression_format"] = "zstd"
    metadata["checksum_format"] = "adler32"
    _write_index(folder, metadata, dict.fromkeys(deltas, _DELTAS))


def _write_whole(
    folder: str, state: _State, checkpoint: str, metadata: Dict[str, str]
) -> None:
    for entry in os.scandir(checkpoint):
        if entry.is_file() and not re.search(r"\.safetensors\b", entry.name):
            shutil.copy(entry.path, folder)
    path = os.path.join(folder, _WEIGHTS)
    # Libraries ask a checkpoint for its framework.
    safetensors.torch.save_file(state, path, {"format": "pt"})
    _write_index(folder, metadata, dict.fromkeys(state, _WEIGHTS))


def _write_index(
    folder: str, metadata: Dict[str, str], weight_map: Dict[str, str]
) -> None:
    with open(os.path.join(folder, _INDEX), "w", encoding="utf-8") as file:
        json.dump({"metadata": metadata, "weight_map": weight_map}, file)


def _persist(folder: str) -> None:
    """Has the files of a folder survive the machine."""
    for entry in os.scandir(folder):
        with open(entry.path, "rb") as file:
            os.fsync(file.fileno())


def _apply(state: _State, directory: str, version: int) -> None:
    """Makes a state that of the next version."""
    folder = os.path.join(directory, _folder(version))
    index = _index_of(folder)
    try:
        metadata, files = index["metadata"], dict(index["weight_map"])
        base = int(metadata["base_version"])
        decode = _choose(_DECODERS, metadata["delta_encoding"], folder)
        _choose({"zstd": None}, metadata["compression_format"], folder)
        checksum = _choose(_CHECKSUMS, metadata["checksum_format"], folder)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(folder, f"its index: {error!r}") from error
    if base != version - 1:
        raise _damaged(folder, f"it is a delta against {base}")
    deltas, checksums = _load_deltas(folder, sorted(set(files.values())))
    if deltas.keys() != files.keys():
        raise _damaged(folder, "its files have other tensors than its index")

    def changed(name: str, delta: NDArray) -> torch.Tensor:
        before = state[name]
        unpacked = zstandard.ZstdDecompressor().decompressobj()
        changes = np.frombuffer(unpacked.decompress(delta.tobytes()), np.uint8)
        after = decode(_bytes_of(before), changes)
        if checksum(after) != checksums[name]:
            raise ValueError("its checksum is another")
        return torch.from_numpy(after).view(before.dtype).reshape(before.shape)

    def change(name: str, delta: NDArray) -> torch.Tensor:
        try:
            return changed(name, delta)
        except (KeyError, IndexError, ValueError, zstandard.ZstdError) as error:
            raise _damaged(folder, f"tensor {name!r}: {error!r}") from error

    state.update(_map(change, deltas))


def _load_deltas(
    folder: str, files: List[str]
) -> Tuple[Dict[str, NDArray], Dict[str, str]]:
    """What is compressed, and checksums, by the names of tensors."""
    deltas: Dict[str, NDArray] = {}
    checksums: Dict[str, str] = {}
    for path in (os.path.join(folder, file) for file in files):
        try:
            deltas.update(safetensors.numpy.load_file(path))
            with safetensors.safe_open(path, "np") as opened:
                checksums.update(opened.metadata() or {})
        except safetensors.SafetensorError as error:
            raise _damaged(path, str(error)) from error
    return deltas, checksums


def _xor(before: NDArray, changes: NDArray) -> NDArray:
    if changes.shape != before.shape:
        raise ValueError("it has another size")
    return np.bitwise_xor(before, changes)


def _overwrite(before: NDArray, changes: NDArray) -> NDArray:
    """Of 32-bit numbers a count and positions, then the bytes there."""
    values = 4 + 4 * int(changes[:4].view("<u4")[0])
    after = before.copy()
    after[changes[4:values].view("<u4")] = changes[values:]
    return after


_DECODERS = {"xor": _xor, "overwrite": _overwrite}


def _xxh3(data: NDArray) -> str:
    return str(importlib.import_module("xxhash").xxh3_128_hexdigest(data))


def _blake3(data: NDArray) -> str:
    return str(importlib.import_module("blake3").blake3(data).hexdigest())


_CHECKSUMS = {"adler32": _adler32, "xxh3-128": _xxh3, "blake3": _blake3}


def _choose(choices: Dict[str, Any], name: str, folder: str) -> Any:
    if name not in choices:
        raise InvalidArgumentError(
            f"{folder}: expected {', '.join(choices)}, got {name!r}"
        )
    return choices[name]


def _damaged(folder: str, what: str) -> DataLossError:
    return DataLossError(f"{folder}: {what}")
