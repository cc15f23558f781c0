"""A worker's part in rounds between which it changes a model by itself."""

from __future__ import annotations

from typing import Any, Callable, List

import numpy as np

from tensorkv._types import NDArray
from tensorkv.client import Client
from tensorkv.errors import FailedPreconditionError


def round_value(number: int) -> NDArray:
    """Returns the number of a round as its key has it."""
    return np.array([number], np.int64)


class Rounds:
    """Contributes to rounds, each of them after the model that it was made of.

    A contribution counts once, in the round after that model, or never,
    whatever calls fail, and however often they are made again. The number of
    the last round is the value of the last of the keys. Used by one thread at a
    time.

    Attributes:
      number: of the round whose model the worker has.
      is_in: whether that round is known to have counted the worker.
      came_late: whether the worker has joined a group that was at work.
      has_gone_back: whether the server was found to have another state since
        this was set to False; then a number may be that of another model.
    """

    def __init__(self, client: Client, timeout: float, came_late: bool):
        """`timeout` is how many seconds to wait for a round that is open."""
        self._client = client
        self._timeout = timeout
        self.number = 0
        self.is_in = False
        self.came_late = came_late
        self.has_gone_back = False
        # Whether the step after `number` was pushed, and its end is not known.
        self._has_pushed = False

    def exchange(
        self,
        keys: List[str],
        arrays: List[Any],
        weights: List[float],
        received: List[Any],
        has_my_model: Callable[[], bool],
    ) -> bool:
        """Contributes to the next round, and receives what it has made.

        Where others have gone on without, it contributes nothing, and receives
        the values that are there; so it does where the server has gone back,
        and `has_my_model` finds another model than that of `number`. Returns
        whether the values are those of the next round, and of none after it.
        """
        client, store, step = self._client, self._client._store, self.number + 1
        while True:
            # A server that was restarted may have gone back.
            has_gone_back = store.has_gone_back
            next_step = self._next_step()
            # Arrays are from the model before `step`, and count in no other:
            # others have gone on without, or with what was pushed before.
            if next_step > step or (has_gone_back and not has_my_model()):
                client.pull(keys, received)
                break
            try:
                client.push_pull(keys, arrays, received, step, weights)
            except FailedPreconditionError:
                if store.has_gone_back:
                    continue
                raise
            self._has_pushed = not store.has_gone_back
            if self._has_pushed:
                break
        return bool(
            not self.has_gone_back
            and received[-1][0] == step
            and self._next_step() == step + 1
        )

    def settle(self, keys: List[str], received: List[Any]) -> int:
        """Returns the round that values are of, received again if need be.

        A round that was open when the worker joined does not have it: what that
        makes is what others go on from.
        """
        client = self._client
        number = int(received[-1][0])
        while number + 1 < self._next_step():
            is_open = client.describe_namespace().rounds_open > 0
            version = client.stat(keys[-1]).version
            client.pull(keys, received)
            number = int(received[-1][0])
            if number + 1 >= self._next_step():
                break
            if not is_open:
                # The steps before were of other keys, or of who is gone.
                number = self._next_step() - 1
                break
            client.pull(
                keys[-1], min_version=version + 1, timeout=self._timeout
            )
        return number

    def has_counted(self, number: int) -> bool:
        """Returns whether the rounds up to that one have the worker's part."""
        pushed = self.number + 1 if self._has_pushed else 0
        last_dropped = int(self._client._store.last_dropped_step)
        return last_dropped < pushed <= number

    def take(self, number: int, is_in: bool) -> None:
        """Has the worker go on from the model of that round, which it has."""
        self.is_in = is_in
        self._has_pushed = False
        self.number = number

    def _next_step(self) -> int:
        if not self._client._store.has_gone_back:
            return self._client.next_step
        self.has_gone_back = True
        return self._client.resume()
