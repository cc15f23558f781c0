"""What can go wrong, as exceptions.

Programs decide by an error's class, `code` and `reason`, never by its text.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple, Type


class Error(Exception):
    """A call that failed.

    Attributes:
      code: the name of the gRPC status code, such as "NOT_FOUND".
      reason: the name of the cause, such as "KEY_NOT_FOUND"; None if there is
        none.
      metadata: what the reason is about, all as text: "key", "step", "ranks"
        and others.
    """

    code = "UNKNOWN"

    def __init__(
        self,
        message: str,
        reason: Optional[str] = None,
        metadata: Optional[Dict[str, str]] = None,
    ):
        super().__init__(message)
        self.reason = reason
        self.metadata = dict(metadata or {})

    # KeyError would quote the message.
    __str__ = Exception.__str__

    def __reduce__(self) -> Tuple[Any, ...]:
        arguments = str(self), self.reason, self.metadata
        return type(self), arguments, {"code": self.code}

    @property
    def key(self) -> Optional[str]:
        """The key that the error is about."""
        return self.metadata.get("key")

    @property
    def step(self) -> Optional[int]:
        """The step that the error is about."""
        step = self.metadata.get("step")
        return int(step) if step else None

    @property
    def ranks(self) -> List[int]:
        """The ranks that were missing or lost."""
        ranks = self.metadata.get("ranks", "")
        return [int(rank) for rank in ranks.split(",") if rank]


class InvalidArgumentError(Error, ValueError):
    """The call is malformed, or does not fit what is stored."""

    code = "INVALID_ARGUMENT"


class NotFoundError(Error, KeyError):
    """There is no such key, namespace or snapshot."""

    code = "NOT_FOUND"


class SnapshotNotFoundError(NotFoundError):
    """The series has no such snapshot, and as far as one knows never had it.

    metadata["latest"] is the highest number that can be read; "0": none can.
    """


class SnapshotLostError(NotFoundError):
    """The snapshot was there and was let go.

    metadata["cause"] says why: "retained" (too much was kept of former values),
    "expired", "keep_last", "deleted" or "share_lost" (a server of the cluster
    has its part no more).
    """


class AlreadyExistsError(Error):
    """The key, namespace or contribution is there already."""

    code = "ALREADY_EXISTS"


class FailedPreconditionError(Error):
    """The state is not one for this call; to repeat it does not help."""

    code = "FAILED_PRECONDITION"


class OlderSnapshotError(FailedPreconditionError):
    """The latest snapshot is older than one that a reader has had.

    The server was restarted, or later ones were deleted: metadata["latest"] is
    the number of the latest, metadata["number"] that which the reader has.
    """


class ClosedError(FailedPreconditionError):
    """The store has been closed."""


class ForkedError(FailedPreconditionError):
    """This process was forked after a client was made, and cannot use one.

    Fork before the first client is made, or let multiprocessing use "spawn".
    """


class AbortedError(Error):
    """A round was lost; push the step again."""

    code = "ABORTED"


class WorkerLeftError(AbortedError):
    """What was waited for needs a worker that has left its group.

    To push again does not help: `ranks` has those that have left.
    """


class RevisionCompactedError(AbortedError):
    """Too much has changed since a watch was told last: begin it anew."""


class SnapshotConflictError(AbortedError):
    """Somebody else has published since: metadata["latest"] says what."""


class ResourceExhaustedError(Error):
    """A budget or limit is reached; back off."""

    code = "RESOURCE_EXHAUSTED"


class UnavailableError(Error, ConnectionError):
    """No server answers."""

    code = "UNAVAILABLE"


class DeadlineExceededError(Error, TimeoutError):
    """The call took too long; the message names what was missing."""

    code = "DEADLINE_EXCEEDED"


class UnimplementedError(Error, NotImplementedError):
    """This kind of store cannot do that."""

    code = "UNIMPLEMENTED"


class PermissionDeniedError(Error, PermissionError):
    """The caller may not do that."""

    code = "PERMISSION_DENIED"


class UnauthenticatedError(Error, PermissionError):
    """The server does not know who calls."""

    code = "UNAUTHENTICATED"


class DataLossError(Error):
    """What was stored is damaged."""

    code = "DATA_LOSS"


class InternalError(Error):
    """A defect of TensorKV."""

    code = "INTERNAL"


_BY_CODE: Dict[str, Type[Error]] = {
    cls.code: cls
    for cls in (
        InvalidArgumentError,
        NotFoundError,
        AlreadyExistsError,
        FailedPreconditionError,
        AbortedError,
        ResourceExhaustedError,
        UnavailableError,
        DeadlineExceededError,
        UnimplementedError,
        PermissionDeniedError,
        UnauthenticatedError,
        DataLossError,
        InternalError,
    )
}


_BY_REASON: Dict[Optional[str], Type[Error]] = {
    "REVISION_COMPACTED": RevisionCompactedError,
    "SNAPSHOT_CONFLICT": SnapshotConflictError,
    "SNAPSHOT_LOST": SnapshotLostError,
    "SNAPSHOT_NOT_FOUND": SnapshotNotFoundError,
    "WORKER_LEFT": WorkerLeftError,
}

# What the client of all languages cannot say.
_HELP: Dict[Optional[str], str] = {
    "SERVER_RESTARTED": (
        "; a KVStore and a worker go on by resume(), another "
        "client by reconnect()"
    )
}


def from_status(
    code: str,
    message: str,
    reason: Optional[str],
    metadata: Dict[str, str],
) -> Error:
    """The exception for a status of the C++ client."""
    cls: Callable[..., Error] = _BY_CODE.get(code, Error)
    cls = _BY_REASON.get(reason, cls)
    error = cls(message + _HELP.get(reason, ""), reason, metadata)
    error.code = code
    return error
