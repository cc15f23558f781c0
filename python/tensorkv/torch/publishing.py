"""Weights that one process publishes and others read."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Optional, Set, Tuple

import torch

from tensorkv.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from tensorkv.torch._tensors import (
    Store,
    client_of,
    dtype_of,
    from_pulled,
    name_of,
    on_host,
    size_of,
    state_of,
)

# The key NAME/.manifest marks what is published.
MANIFEST = ".manifest"

# A tensor's name leads to its dtype, by the store's name, and its shape.
_Entries = Dict[str, Tuple[str, List[int]]]


class Publisher:
    """Publishes states under a name: each as a whole, with a version.

    The tensor X of a model NAME is the key NAME/X; NAME/.manifest says what
    there is. Works in a namespace of any mode, beside other keys, but those
    below NAME/ are its own. A name has one publisher at a time, and states go
    through calls of one thread.
    """

    def __init__(self, store: Store, name: str = "published"):
        """`store` is a tensorkv.Client, or what tensorkv.create makes."""
        self._client = client_of(store)
        self._name = name
        self._published: Optional[set] = None

    def publish(
        self, state: Any, dtype: Optional[torch.dtype] = None
    ) -> int:
        """Makes `state` what readers get from now on.

        Args:
          state: a module, or a mapping of names to tensors, on any device.
          dtype: of floats as they are stored, unless they are narrower;
            without it their own.

        Returns:
          The version, which rises with each state.

        Errors: TypeError for what is no tensor, or of a dtype that the store
        does not have; FailedPreconditionError where other keys have names
        below NAME/; those of tensorkv.Client.init.
        """
        tensors = {
            key: on_host(_narrowed(tensor, dtype))
            for key, tensor in state_of(state).items()
        }
        if MANIFEST in tensors:
            raise InvalidArgumentError(f"a tensor has the name {MANIFEST}")
        entries = {
            key: (name_of(tensor.dtype), list(tensor.shape))
            for key, tensor in tensors.items()
        }
        manifest = json.dumps(entries).encode()
        keys = _keys(self._name, [MANIFEST, *tensors])
        if self._published is None:
            self._published = self._take_over()
        # A call that fails may have been made all the same.
        self._published.update(keys)
        self._client.init(
            keys, [manifest, *tensors.values()], on_existing="replace"
        )
        self._delete_others(keys)
        return self._client.stat(keys[0])["version"]

    def _take_over(self) -> set:
        """The keys of the state that an earlier Publisher has left."""
        key = f"{self._name}/{MANIFEST}"
        try:
            manifest = self._client._store.pull_memory([key], False, 0, "")
        except NotFoundError:
            if self._client.keys(f"{self._name}/"):
                raise FailedPreconditionError(
                    f"{self._name}/: expected no keys, got some that no "
                    "Publisher made; publish under another name"
                ) from None
            earlier = set()
        else:
            names = json.loads(bytes(manifest[0]))
            earlier = set(_keys(self._name, [MANIFEST, *names]))
        self._client.set_rule("assign", key_pattern=f"{self._name}/*")
        return earlier

    def _delete_others(self, keys: List[str]) -> None:
        """Deletes what earlier states had."""
        others = self._published.difference(keys)
        if others:
            self._client.delete(sorted(others), allow_missing=True)
        self._published = set(keys)


class Reader:
    """Reads what a Publisher of that name publishes.

    A state that is read is one that was published, never a mix of two. Not
    thread-safe.
    """

    def __init__(self, store: Store, name: str = "published"):
        """`store` is a tensorkv.Client, or what tensorkv.create makes."""
        self._client = client_of(store)
        self._name = name
        self._manifest: Optional[bytes] = None
        self._version = 0

    @property
    def version(self) -> int:
        """The version of the state that was fetched last; 0 before."""
        return self._version

    def wait(self, version: Optional[int] = None) -> int:
        """Returns when the published version is at least `version`.

        Without `version`, when there is one that was not fetched. Returns what
        the version is. Errors: DeadlineExceededError after the client's
        timeout.
        """
        wanted = self._version + 1 if version is None else version
        return self._pull_manifest(wanted).version

    def fetch(
        self, into: Any = None, dtype: Optional[torch.dtype] = None
    ) -> Dict[str, torch.Tensor]:
        """Reads the state that is published now; waits for the first one.

        Args:
          into: a module, or a mapping of names to tensors, which are filled in
            place, whatever their dtype and device; published tensors that it
            does not have are not read.
          dtype: of the floats, without `into`; else as they are published.

        Floats that are wanted narrower than they are published are converted
        by the server, before they are sent, unless they are wanted in several
        such dtypes.

        Returns:
          The tensors by name: those of `into`, or new ones.

        Errors: InvalidArgumentError where a tensor of `into` is not published,
        or has another shape, with all of them as they were;
        DeadlineExceededError.
        """
        targets = None if into is None else state_of(into)
        if self._manifest is None:
            self._manifest = bytes(self._pull_manifest(0))
        tensors, tried = None, None
        while tensors is None:
            entries = json.loads(self._manifest)
            try:
                wanted = _wanted(entries, targets, dtype)
                tensors = self._pull(wanted, entries)
            except (InvalidArgumentError, NotFoundError):
                # There is a state with other tensors, unless it is that one.
                now = self._pull_manifest(0)
                if now.version == tried:
                    raise
                tried = now.version
                self._learn(bytes(now))
        if targets is None:
            return tensors
        with torch.no_grad():
            for name, tensor in tensors.items():
                targets[name].copy_(tensor)
        return targets

    def _learn(self, manifest: bytes) -> bool:
        """Whether the manifest is another than was known."""
        known, self._manifest = self._manifest, manifest
        return manifest != known

    def _pull_manifest(self, min_version: int) -> Any:
        keys = _keys(self._name, [MANIFEST])
        store = self._client._store
        return store.pull_memory(keys, True, min_version, "")[0]

    def _pull(
        self, wanted: Dict[str, torch.dtype], entries: _Entries
    ) -> Optional[Dict[str, torch.Tensor]]:
        """The state; None where the manifest turns out to be another."""
        narrower, dtype = _converted(wanted, entries)
        others = [name for name in wanted if name not in narrower]
        pulled = self._pull_keys([MANIFEST, *others])
        if narrower:
            converted = self._pull_keys(narrower, dtype)
            now = self._client.stat(f"{self._name}/{MANIFEST}")
            if now["version"] == pulled[MANIFEST].version:
                pulled.update(converted)
            else:  # They are of two states: one call has one, not converted.
                pulled = self._pull_keys([MANIFEST, *wanted])
        if self._learn(bytes(pulled[MANIFEST])):
            return None
        self._version = pulled[MANIFEST].version
        return {
            name: from_pulled(pulled[name], entries[name][1]).to(dtype)
            for name, dtype in wanted.items()
        }

    def _pull_keys(self, names: Any, dtype: str = "") -> Dict[str, Any]:
        keys = _keys(self._name, names)
        values = self._client._store.pull_memory(keys, False, 0, dtype)
        return dict(zip(names, values))


def _keys(name: str, tensors: Any) -> List[str]:
    return [f"{name}/{each}" for each in tensors]


def _is_narrower(dtype: torch.dtype, other: torch.dtype) -> bool:
    return (
        dtype.is_floating_point
        and other.is_floating_point
        and size_of(dtype) < size_of(other)
    )


def _converted(
    wanted: Dict[str, torch.dtype], entries: _Entries
) -> Tuple[Set[str], str]:
    """What the server is to convert, and to which dtype, if it is one."""
    narrower = {
        name
        for name, dtype in wanted.items()
        if _is_narrower(dtype, dtype_of(entries[name][0]))
    }
    dtypes = {wanted[name] for name in narrower}
    if len(dtypes) != 1:
        return set(), ""
    return narrower, name_of(dtypes.pop())


def _narrowed(
    tensor: torch.Tensor, dtype: Optional[torch.dtype]
) -> torch.Tensor:
    if dtype is not None and _is_narrower(dtype, tensor.dtype):
        return tensor.to(dtype)
    return tensor


def _wanted(
    entries: _Entries,
    targets: Optional[Dict[str, torch.Tensor]],
    dtype: Optional[torch.dtype],
) -> Dict[str, torch.dtype]:
    """The tensors to read, with their dtypes."""
    if targets is None:
        stored = {name: dtype_of(entry[0]) for name, entry in entries.items()}
        return {
            name: dtype if dtype and each.is_floating_point else each
            for name, each in stored.items()
        }
    for name, target in targets.items():
        shape = entries[name][1] if name in entries else None
        if shape != list(target.shape):
            raise InvalidArgumentError(
                f"tensor {name!r}: expected the published shape {shape}, got "
                f"{list(target.shape)}"
            )
    return {name: target.dtype for name, target in targets.items()}
