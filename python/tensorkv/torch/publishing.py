"""Weights that one process publishes and others read."""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import time
import uuid
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    Optional,
    Set,
    Tuple,
    TypeVar,
)

import torch

from tensorkv.aio import ReaderCoroutines
from tensorkv.client import Client
from tensorkv.errors import (
    Error,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
)
from tensorkv.torch._tensors import (
    State,
    Store,
    client_of,
    dtype_of,
    from_pulled,
    name_of,
    on_host,
    size_of,
    state_of,
)

# The key NAME/.manifest says what is published.
MANIFEST = ".manifest"
# The tensors of a state are NAME/.STATE/TENSOR, with a name of its own for each
# state: what has such a name never changes.
_TENSOR = re.compile(r"\.[0-9a-f]{16}/")

_log = logging.getLogger("tensorkv")
_Result = TypeVar("_Result")

# A tensor's name leads to its dtype, by the store's name, and its shape.
_Entries = Dict[str, Tuple[str, List[int]]]


@dataclasses.dataclass(frozen=True)
class _Manifest:
    """What the key NAME/.manifest has."""

    state: str
    run: str
    metadata: Dict[str, Any]
    tensors: _Entries
    # Of its key.
    version: int = 0

    def encode(self) -> bytes:
        fields = dataclasses.asdict(self)
        del fields["version"]
        return json.dumps(fields).encode()

    @classmethod
    def of(cls, pulled: Tuple[Any, str, int]) -> "_Manifest":
        text, _, version = pulled
        return cls(version=version, **json.loads(bytes(text)))


class _FollowedServer:
    """A client that goes on with a server which was restarted.

    It has a connection of its own from then on: what else the client does is
    refused as before, since it may not know that there is another state.
    """

    def __init__(self, client: Client):
        self.client = client
        self.restarts = 0

    def call(self, call: Callable[[Client], _Result]) -> _Result:
        try:
            return call(self.client)
        except FailedPreconditionError as error:
            if error.reason != "SERVER_RESTARTED":
                raise
        self.client = self.client._again()
        self.restarts += 1
        return call(self.client)


class Publisher:
    """Publishes states under a name: each as a whole, with a version.

    NAME/.manifest says what there is, and where: a state gets keys of its own,
    and the manifest leads to them when all are there. So readers get whole
    states, on a cluster too. Those of the state before are deleted then; for
    that moment the store has both. Works in a namespace of any mode, beside
    other keys, but those below NAME/ are its own. A name has one publisher at a
    time, and states go through calls of one thread.

    A publisher goes on with a server that was restarted, whatever that has.
    """

    def __init__(self, store: Store, name: str = "published", run: str = ""):
        """`store` is a tensorkv.Client, or what tensorkv.create makes.

        Args:
          name: readers know it.
          run: such as a training's; readers may ask for states of one run.
        """
        self._server = _FollowedServer(client_of(store))
        self._name = name
        self._run = run
        # Whether the keys below the name are those of what is published.
        self._is_tidy = False

    def __repr__(self) -> str:
        return f"<tensorkv.torch.Publisher of {self._name!r}>"

    def publish(
        self,
        state: State,
        dtype: Optional[torch.dtype] = None,
        metadata: Optional[Mapping[str, Any]] = None,
    ) -> int:
        """Makes `state` what readers get from now on.

        Args:
          state: a module, or a mapping of names to tensors, on any device.
            Nested ones, as state_dict() of an optimizer has, are not taken.
          dtype: of floats as they are stored, unless they are narrower;
            without it their own.
          metadata: what readers find as `Reader.metadata`, such as the step or
            the loss: whatever JSON can say.

        Returns:
          The version, which rises with each state.

        Errors: TypeError for what is no tensor, or of a dtype that the store
        does not have, and for metadata that are no JSON;
        FailedPreconditionError where other keys have names below NAME/; those
        of tensorkv.Client.init. What a call that failed may have left is
        deleted by the next one.
        """
        tensors = {
            key: on_host(_narrowed(tensor, dtype))
            for key, tensor in state_of(state).items()
        }
        manifest = _Manifest(
            state=uuid.uuid4().hex[:16],
            run=self._run,
            metadata=dict(metadata or {}),
            tensors={
                key: (name_of(tensor.dtype), list(tensor.shape))
                for key, tensor in tensors.items()
            },
        )
        text = manifest.encode()
        keys = _keys(self._name, manifest.state, tensors)

        def put(client: Client) -> int:
            if keys:
                # One that was made although it failed is made again.
                values = list(tensors.values())
                client.init(keys, values, on_existing="replace")
            name = f"{self._name}/{MANIFEST}"
            return client.init(name, text, on_existing="replace")

        if not self._is_tidy:
            self._server.call(self._take_over)
        self._is_tidy = False
        version = self._server.call(put)
        try:
            self._server.call(self._tidy)
            self._is_tidy = True
        except Error as error:
            _log.warning(
                "%s/: a state that is published no more was not deleted: %s",
                self._name,
                error,
            )
        return version

    def unpublish(self) -> None:
        """Takes back what is published: readers wait for the next state."""

        def delete(client: Client) -> None:
            client.delete(f"{self._name}/{MANIFEST}", allow_missing=True)
            self._keep(client, None)

        self._server.call(delete)
        self._is_tidy = False

    def _take_over(self, client: Client) -> None:
        self._tidy(client)
        client.set_rule("assign", key_pattern=f"{self._name}/*")

    def _tidy(self, client: Client) -> None:
        """Deletes what belongs to no state that is published."""
        manifest = _manifest_in(client, self._name)
        self._keep(client, manifest.state if manifest else None)

    def _keep(self, client: Client, state: Optional[str]) -> None:
        """Deletes all states but that one, if one is given.

        Errors: FailedPreconditionError where there are other keys.
        """
        keys = client.keys(f"{self._name}/")
        own = [key for key in keys if self._is_own(key)]
        kept = f"{self._name}/{MANIFEST}", f"{self._name}/.{state}/"
        others = [key for key in own if not key.startswith(kept)]
        if others:
            client.delete(others, allow_missing=True)
        foreign = set(keys).difference(own)
        if foreign:
            raise FailedPreconditionError(
                f"{self._name}/: expected the keys of Publishers alone, got "
                f"{min(foreign)!r}; publish under another name"
            )

    def _is_own(self, key: str) -> bool:
        rest = key[len(self._name) + 1 :]
        return rest == MANIFEST or _TENSOR.match(rest) is not None


class Reader:
    """Reads what a Publisher of that name publishes.

    A state that is read is one that was published, never a mix of two. Not
    thread-safe.

    A reader goes on with a server that was restarted, whatever that has: then
    the state that it gets next may be an earlier one.
    """

    def __init__(self, store: Store, name: str = "published", run: str = ""):
        """`store` is as Publisher has it.

        Args:
          name: that of the Publisher.
          run: the run whose states are read, if a Publisher names one; states
            of others are as if they were not there.
        """
        self._server = _FollowedServer(client_of(store))
        self._name = name
        self._run = run
        self._fetched: Optional[_Manifest] = None

    def __repr__(self) -> str:
        return (
            f"<tensorkv.torch.Reader of {self._name!r}, version {self.version}>"
        )

    @property
    def version(self) -> int:
        """The version of the state that was fetched last; 0 before."""
        return self._fetched.version if self._fetched else 0

    @property
    def metadata(self) -> Dict[str, Any]:
        """What was published with the state that was fetched last."""
        return dict(self._fetched.metadata) if self._fetched else {}

    @property
    def aio(self) -> ReaderCoroutines:
        """`wait` and `fetch` as coroutines: `await reader.aio.fetch()`."""
        client = self._server.client
        return ReaderCoroutines(self, client._threads, client._pushing_threads)

    def wait(
        self, version: Optional[int] = None, timeout: Optional[float] = None
    ) -> int:
        """Returns when the published version is at least `version`.

        Without `version`, when there is a state that was not fetched. Returns
        what the version is. `timeout` is in seconds; without it, that of the
        client. Errors: DeadlineExceededError.
        """
        last = self._fetched
        if version is not None:
            least = version
            found = self._await(lambda m: m.version >= least, least, timeout)
            return found.version
        return self._await(
            lambda m: last is None or m.state != last.state,
            last.version + 1 if last else 0,
            timeout,
        ).version

    def fetch(
        self,
        into: Optional[State] = None,
        dtype: Optional[torch.dtype] = None,
        timeout: Optional[float] = None,
    ) -> Dict[str, torch.Tensor]:
        """Reads the state that is published now; waits for the first one.

        Args:
          into: a module, or a mapping of names to tensors, which are filled in
            place, whatever their dtype and device; published tensors that it
            does not have are not read.
          dtype: of the floats, without `into`; else as they are published.
          timeout: seconds, in place of the client's.

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
        end = None if timeout is None else time.monotonic() + timeout
        tried = None
        while True:
            manifest = self._await(lambda _: True, 0, _left(end))
            try:
                wanted = _wanted(manifest.tensors, targets, dtype)
                tensors = self._pull(manifest, wanted, _left(end))
                break
            except (InvalidArgumentError, NotFoundError):
                # There is another state now, unless it is that one.
                if manifest.state == tried:
                    raise
                tried = manifest.state
        self._fetched = manifest
        if targets is None:
            return tensors
        with torch.no_grad():
            for name, tensor in tensors.items():
                targets[name].copy_(tensor)
        return targets

    def _await(
        self,
        is_enough: Callable[[_Manifest], bool],
        min_version: int,
        timeout: Optional[float],
    ) -> _Manifest:
        """Waits for a manifest of the run that is wanted."""
        end = None if timeout is None else time.monotonic() + timeout
        key = [f"{self._name}/{MANIFEST}"]
        while True:
            restarts, left = self._server.restarts, _left(end)

            def pull(client: Client) -> Any:
                # A server that was restarted counts versions anew.
                least = min_version if self._server.restarts == restarts else 0
                return client._pull_memory(key, True, least, "", left)[0]

            manifest = _Manifest.of(self._server.call(pull))
            is_wanted = not self._run or manifest.run == self._run
            if is_wanted and is_enough(manifest):
                return manifest
            min_version = manifest.version + 1

    def _pull(
        self,
        manifest: _Manifest,
        wanted: Dict[str, torch.dtype],
        timeout: Optional[float],
    ) -> Dict[str, torch.Tensor]:
        narrower, dtype = _converted(wanted, manifest.tensors)
        others = [name for name in wanted if name not in narrower]
        pulled: Dict[str, Any] = {}
        for names, as_dtype in ((others, ""), (list(narrower), dtype)):
            if not names:
                continue
            keys = _keys(self._name, manifest.state, names)
            values = self._server.call(
                lambda client: client._pull_memory(
                    keys, False, 0, as_dtype, timeout
                )
            )
            pulled.update(zip(names, values))
        return {
            name: from_pulled(pulled[name], manifest.tensors[name][1]).to(dtype)
            for name, dtype in wanted.items()
        }


def _left(end: Optional[float]) -> Optional[float]:
    """How many seconds are left; None where there is no end."""
    return None if end is None else max(end - time.monotonic(), 0.0)


def _manifest_in(client: Client, name: str) -> Optional[_Manifest]:
    """What is published now, if anything is."""
    try:
        pulled = client._pull_memory([f"{name}/{MANIFEST}"], False, 0, "", None)
    except NotFoundError as error:
        if error.reason != "KEY_NOT_FOUND":
            raise
        return None
    return _Manifest.of(pulled[0])


def _keys(name: str, state: str, tensors: Any) -> List[str]:
    return [f"{name}/.{state}/{each}" for each in tensors]


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
        if name not in entries:
            raise InvalidArgumentError(
                f"tensor {name!r}: expected one that is published, got none of "
                "that name"
            )
        shape = entries[name][1]
        if shape != list(target.shape):
            raise InvalidArgumentError(
                f"tensor {name!r}: expected the published shape {shape}, got "
                f"{list(target.shape)}"
            )
    return {name: target.dtype for name, target in targets.items()}
