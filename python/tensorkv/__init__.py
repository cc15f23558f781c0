"""TensorKV: a networked key-value store of tensors.

`create` makes a store with the vocabulary of MXNet's KVStore; `Client` has the
verbs of TensorKV itself.
"""

import pkgutil

# Stubs of proto/ are modules tensorkv.v1, wherever they are on sys.path.
__path__ = pkgutil.extend_path(__path__, __name__)

from tensorkv._core import version as __version__
from tensorkv._create import create
from tensorkv._snapshots import LeasedSnapshot
from tensorkv._step_records import (
    StepContribution,
    StepContributors,
    StepFailure,
    StepRecord,
    StepWorker,
)
from tensorkv._types import (
    At,
    Change,
    CheckpointStatus,
    KeyStatus,
    NamespaceStatus,
    PublishAs,
    ServerStatus,
    Snapshot,
    SnapshotLease,
    SnapshotStatus,
    WorkerStatus,
)
from tensorkv._watch import Watch
from tensorkv.client import Client
from tensorkv.dist_kvstore import DistKVStore
from tensorkv.errors import (
    AbortedError,
    AlreadyExistsError,
    ClosedError,
    DataLossError,
    DeadlineExceededError,
    Error,
    FailedPreconditionError,
    ForkedError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    OlderSnapshotError,
    PermissionDeniedError,
    ResourceExhaustedError,
    RevisionCompactedError,
    SnapshotConflictError,
    SnapshotLostError,
    SnapshotNotFoundError,
    UnauthenticatedError,
    UnavailableError,
    UnimplementedError,
    WorkerLeftError,
)
from tensorkv.kvstore import KVStore
from tensorkv.row_sparse import RowSparseArray

__all__ = [
    "AbortedError",
    "AlreadyExistsError",
    "At",
    "Change",
    "CheckpointStatus",
    "Client",
    "ClosedError",
    "DataLossError",
    "DeadlineExceededError",
    "DistKVStore",
    "Error",
    "FailedPreconditionError",
    "ForkedError",
    "InternalError",
    "InvalidArgumentError",
    "KVStore",
    "KeyStatus",
    "LeasedSnapshot",
    "NamespaceStatus",
    "NotFoundError",
    "OlderSnapshotError",
    "PermissionDeniedError",
    "PublishAs",
    "ResourceExhaustedError",
    "RevisionCompactedError",
    "RowSparseArray",
    "ServerStatus",
    "Snapshot",
    "SnapshotConflictError",
    "SnapshotLease",
    "SnapshotLostError",
    "SnapshotNotFoundError",
    "SnapshotStatus",
    "StepContribution",
    "StepContributors",
    "StepFailure",
    "StepRecord",
    "StepWorker",
    "UnauthenticatedError",
    "UnavailableError",
    "UnimplementedError",
    "Watch",
    "WorkerLeftError",
    "WorkerStatus",
    "create",
]
