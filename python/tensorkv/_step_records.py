"""What the steps of a namespace of workers were."""

from __future__ import annotations

import dataclasses
from typing import Any, List, Mapping, Optional

from tensorkv import _core
from tensorkv._client_arguments import within


@dataclasses.dataclass(frozen=True)
class StepContribution:
    """What one worker gave to keys of a step."""

    rank: int
    # The step for which it came too late, after which this one has taken it;
    # None: it is of this step.
    carried_from: Optional[int]
    # The worker had nothing for the key, or the gradient guard has skipped it.
    skipped: bool
    # In a mean; None elsewhere.
    weight: Optional[float]


@dataclasses.dataclass(frozen=True)
class StepContributors:
    """Keys of a step that had the same contributions."""

    contributions: List[StepContribution]
    # The ranks that a quorum did without.
    missing: List[int]
    num_keys: int
    # Some of them; those of the first list of a step are not named.
    keys: List[str]


@dataclasses.dataclass(frozen=True)
class StepFailure:
    """Rounds of a step that failed for one cause."""

    reason: str
    # Who was lost, or had not come in time, and who had contributed.
    ranks: List[int]
    came: List[int]
    num_rounds: int
    # Some of those whose rounds they were.
    keys: List[str]


@dataclasses.dataclass(frozen=True)
class StepWorker:
    """What there is to tell of one worker in a step.

    Counts of keys, but for the pushes that were refused.
    """

    rank: int
    # As it had joined; "" where it has no name.
    name: str
    # Pushes that came when a round was closed.
    late_refused: int
    # Contributions that came so and were kept for a later round; of these,
    # those that one has taken, and those that none will.
    late_carried: int
    late_taken: int
    late_dropped: int
    # Pushes for which another process had contributed as this rank.
    duplicates_refused: int
    # What the gradient guard has done.
    guard_clipped: int
    guard_skipped: int
    # Pushes.
    guard_refused: int
    # The greatest that the guard has found in a key; 0 where it takes none.
    greatest_norm: float


@dataclasses.dataclass(frozen=True)
class StepRecord:
    """What a step was."""

    step: int
    # Seconds since 1970; None: no round of it has closed or failed yet.
    last_end: Optional[float]
    # One for each key.
    rounds_closed: int
    rounds_failed: int
    contributors: List[StepContributors]
    # Rounds that are in none of `contributors`, as too many differ.
    rounds_unlisted: int
    failures: List[StepFailure]
    failures_unlisted: int
    workers: List[StepWorker]


def _contributors(fields: Mapping[str, Any]) -> StepContributors:
    shown = dict(fields)
    shown["contributions"] = [
        StepContribution(**each) for each in fields["contributions"]
    ]
    return StepContributors(**shown)


def _step_record(fields: Mapping[str, Any]) -> StepRecord:
    shown = dict(fields)
    shown["contributors"] = [_contributors(c) for c in fields["contributors"]]
    shown["failures"] = [StepFailure(**each) for each in fields["failures"]]
    shown["workers"] = [StepWorker(**each) for each in fields["workers"]]
    return StepRecord(**shown)


class StepVerbs:
    """What tensorkv.Client adds a connection to."""

    _store: _core.Store

    def describe_steps(
        self,
        newest: int = 10,
        *,
        first_step: int = 0,
        last_step: int = 0,
        timeout: Optional[float] = None,
    ) -> List[StepRecord]:
        """What the newest steps were, the newest first.

        Of a namespace of mode "sync": who contributed to each step, what was
        late, carried, dropped, skipped, clipped or refused, and which rounds
        failed, and why. The server keeps the last 128 steps, as far as its
        memory goes, and none of before it was started.

        Args:
          newest: at most so many; 0: all.
          first_step, last_step: of these and those between them alone; 0 is no
            bound.

        Errors: FailedPreconditionError in a namespace of another mode.
        """
        with within(timeout):
            found = self._store.describe_steps(newest, first_step, last_step)
        return [_step_record(each) for each in found]
