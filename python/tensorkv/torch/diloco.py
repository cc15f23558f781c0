"""DiLoCo: workers that train by themselves, and meet in steps of the server."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from concurrent.futures import Future
from typing import Dict, List, Optional, Sequence, Tuple, Union

import torch

from tensorkv._rounds import round_value
from tensorkv._types import SumOrder
from tensorkv.aio import Threads
from tensorkv.client import Client
from tensorkv.errors import Error, InvalidArgumentError
from tensorkv.federated import (
    MAX_CLIENTS,
    ModelKeys,
    Nesterov,
    ServerOptimizer,
    join_rounds,
)
from tensorkv.torch._tensors import moved, on_host, put_back
from tensorkv.torch.optimizer import outer_rule_of

OuterOptimizer = Union[ServerOptimizer, torch.optim.Optimizer]


class _Fragment:
    """Parameters that are exchanged in the same rounds.

    Attributes:
      names: of the parameters, as the keys have them.
      start: what the parameters were after the last round of the fragment.
      round: the number of that round; None before the worker has taken part.
      num_tokens: how many what the parameters have moved by since is worth.
    """

    def __init__(self, index: int, module: torch.nn.Module):
        named = {
            name: parameter
            for name, parameter in module.named_parameters()
            if parameter.requires_grad and parameter.is_floating_point()
        }
        if not named:
            raise InvalidArgumentError(
                f"model_fragments: expected parameters in each that are "
                f"trained, got none in number {index}"
            )
        self.names = [f"{index}/{name}" for name in named]
        self.parameters = list(named.values())
        self.start: List[torch.Tensor] = []
        self.round: Optional[int] = None
        self.num_tokens = 0.0

    def on_host(self) -> List[torch.Tensor]:
        return [on_host(each) for each in self.parameters]


@dataclasses.dataclass
class _Sent:
    """What a worker has contributed to the next round, until it has that."""

    fragment: _Fragment
    moves: List[torch.Tensor]
    weight: float
    # Of the call that is under way, if one is.
    taken: Optional["Future[_Taken]"] = None


@dataclasses.dataclass
class _Taken:
    """What rounds have made of fragments.

    Attributes:
      is_next: whether it is the next round alone, to which a worker has sent.
    """

    number: int
    is_next: bool
    values: List[Tuple[_Fragment, List[torch.Tensor]]]


class DiLoCo:
    """Lets workers take many steps by themselves between steps of the group.

        client = tensorkv.Client("host:7363", namespace="pretraining-1")
        diloco = DiLoCo(client, [model], sync_every=500, num_workers=4)
        while diloco.round < 100:
            tokens = next(batches)
            loss_of(model(tokens)).backward()
            optimizer.step()
            optimizer.zero_grad()
            diloco.step(tokens.numel())

    After `sync_every` steps of a worker the server takes the mean of what the
    workers have moved by, weighted by their tokens, as a gradient; it makes a
    step of the outer optimizer along it, and the workers go on from there.

    With several fragments these take turns: a round is of one of them, and
    there is one every sync_every / len(model_fragments) steps, so that less
    goes over the link at a time (Streaming DiLoCo, arXiv:2501.18512). What
    a worker moves by goes out `fragment_sync_delay` steps before the end of its
    round, and what the server makes of it is put in place at the end; the
    worker trains meanwhile.

    The server has the model, that of the worker that came first at first, and
    the state of the outer optimizer. A round closes when all workers that are
    there have contributed, or when `quorum` of them have, `deadline` seconds
    after the first. Who is lost, by whatever end, only misses. Who comes later,
    or comes back, takes the model after the round that is open, and takes part
    from then on; it sends what it has as soon as others have come to the end
    of the next round, so that nobody waits for it.

    Others may read the model: under NAME/INDEX/PARAMETER the server has the
    parameters of the fragments, and under NAME/.round the number of the last
    round; a pull of all is of one moment. Buffers, and what is not trained,
    stay each worker's own, and so does the state of its inner optimizer.

    Use it on one thread.
    """

    def __init__(
        self,
        client: Client,
        model_fragments: Union[torch.nn.Module, Sequence[torch.nn.Module]],
        *,
        sync_every: int,
        outer_optimizer: OuterOptimizer = Nesterov(),
        fragment_sync_delay: int = 0,
        fragment_update_alpha: float = 0.0,
        name: str = "diloco",
        worker_name: Optional[str] = None,
        num_workers: int = 1,
        max_workers: int = MAX_CLIENTS,
        quorum: int = 0,
        deadline: float = 0.0,
        sum_order: SumOrder = "rank",
        lease: float = 10.0,
        timeout: float = 600.0,
    ):
        """Joins the client's namespace, and takes the model that is there.

        Names and meanings of the first six are those of torchft's DiLoCo, whose
        manager the client stands for.

        Args:
          client: one that has not joined. Its namespace is made, unless it is
            there; then it is as it was made, and so are the rules of the keys.
            With its `set_compression` less is sent.
          model_fragments: parts of a model, or all of it as one.
          sync_every: after how many steps each of them is exchanged.
          outer_optimizer: of the server: one of tensorkv.federated, or one of
            torch.optim that StoreOptimizer takes, of which the arguments count.
          fragment_sync_delay: how many steps to send before the round ends;
            less than sync_every / len(model_fragments).
          fragment_update_alpha: how much of its own parameters, from 0 to 1, a
            worker keeps when it takes those of the server.
          worker_name: as `Client.join` has it; else one that nobody else has.
          num_workers: how many are there before the first round closes. From
            then on a round needs those who are there, up to `max_workers`.
          quorum, deadline: a round closes with that many contributions, too,
            so many seconds, at most 3600, after its first; 0: it waits for all.
          sum_order: "rank" for the same bits every time, or "arrival" for
            memory of the server that does not grow with the number of workers.
          lease: seconds without a sign of life until a worker counts as lost.
          timeout: seconds for which a round waits for the others.

        Errors: InvalidArgumentError where sync_every is no multiple of the
        number of fragments, a parameter is in two of them, or parameters of
        these names have another shape or dtype there; UnimplementedError for
        an optimizer that no rule stands for; FailedPreconditionError where the
        namespace has no means, or rounds fail when a worker is lost; those of
        Client.join. Who joins and then fails closes the client.
        """
        if isinstance(model_fragments, torch.nn.Module):
            model_fragments = [model_fragments]
        self._fragments = [
            _Fragment(i, each) for i, each in enumerate(model_fragments)
        ]
        _check_are_apart(self._fragments)
        self._interval = _interval_of(sync_every, len(self._fragments))
        self._alpha = fragment_update_alpha
        _check_delay(fragment_sync_delay, self._alpha, self._interval)
        self._send_at = self._interval - fragment_sync_delay
        self._client = client
        # Of the present round.
        self._local_step = 0
        # Whether the others are ahead with the steps of the present round.
        self._is_behind = False
        self._sent: Optional[_Sent] = None
        # What was taken, and is to be put in place.
        self._unplaced: List[Tuple[_Fragment, List[torch.Tensor]]] = []
        names = [name for each in self._fragments for name in each.names]
        self._keys = ModelKeys(name, names, [])
        values = [value for each in self._fragments for value in each.on_host()]
        rule = outer_rule_of(outer_optimizer)
        self._rounds = join_rounds(
            client,
            self._keys,
            rule,
            values,
            worker_name=worker_name,
            lease=lease,
            timeout=timeout,
            deadline=deadline,
            num_workers=num_workers,
            max_workers=max_workers,
            quorum=quorum,
            sum_order=sum_order,
        )
        self._thread = Threads(max_calls=1)
        try:
            self._take(self._receive_all())
            self._place()
        except BaseException:
            client.leave()
            raise

    @property
    def round(self) -> int:
        """The number of the last round that the model here contains."""
        return self._rounds.number

    @property
    def is_in(self) -> bool:
        """Whether the last round is known to have counted this worker.

        Else it was closed without, and what the worker had moved by is gone.
        """
        return self._rounds.is_in

    def step(self, num_tokens: float = 1.0) -> bool:
        """Counts a step of the inner optimizer; whether a round has ended.

        Where it ends with an error, the next step makes up for it: what has
        arrived counts once, and in its own round alone.

        Args:
          num_tokens: on which the worker has trained in the step. Its part in
            a mean is that of its tokens since the last round of the fragment.

        Errors: InvalidArgumentError for a number that is negative or not
        finite; those of Client.push_pull.
        """
        if not 0 <= num_tokens < math.inf:
            raise InvalidArgumentError(
                f"num_tokens: expected a finite number of at least 0, got "
                f"{num_tokens!r}"
            )
        self._place()
        self._local_step += 1
        for fragment in self._fragments:
            fragment.num_tokens += num_tokens
        if self._sent is None and self._is_awaited():
            self._local_step = max(self._local_step, self._send_at)
            self._send()
        if self._local_step < self._interval:
            return False
        self._end_round()
        return True

    def leave(self) -> None:
        """Closes the client, once what it has sent counts: nobody waits."""
        try:
            if self._sent is not None and self._sent.taken is not None:
                self._sent.taken.result()
        finally:
            self._thread.close()
            self._client.leave()

    # --- Rounds -------------------------------------------------------------

    def _is_awaited(self) -> bool:
        """Whether the worker is to send what it has."""
        if self._local_step >= self._send_at:
            return True
        if not self._is_behind:
            return False
        # What is wrong shows when it sends.
        with contextlib.suppress(Error):
            return self._client.describe_namespace().rounds_open > 0
        return False

    def _fragment_of(self, number: int) -> _Fragment:
        return self._fragments[(number - 1) % len(self._fragments)]

    def _send(self) -> None:
        fragment = self._fragment_of(self._rounds.number + 1)
        moves = [
            moved(start, end)
            for start, end in zip(fragment.start, fragment.on_host())
        ]
        sent = _Sent(fragment, moves, fragment.num_tokens)
        fragment.num_tokens = 0.0
        self._sent = sent
        self._begin_exchange(sent)

    def _begin_exchange(self, sent: _Sent) -> "Future[_Taken]":
        sent.taken = self._thread.submit(lambda: self._exchange(sent))
        return sent.taken

    def _end_round(self) -> None:
        """Takes what the server has made, and begins the next round."""
        sent = self._sent
        assert sent is not None
        # Its call may have failed before.
        call = sent.taken or self._begin_exchange(sent)
        try:
            taken = call.result()
        except BaseException:
            # This thread may be interrupted while the call goes on.
            if call.done():
                sent.taken = None
            raise
        self._take(taken)
        self._place()

    def _exchange(self, sent: _Sent) -> _Taken:
        """Contributes, and receives what to go on from."""
        rounds = self._rounds
        number = rounds.number + 1
        keys = ModelKeys(self._keys.name, sent.fragment.names, [])
        received = _memory_like(sent.fragment.parameters)
        is_next = rounds.exchange(
            keys.all(),
            keys.contribution(sent.moves, [], number),
            keys.weights(sent.weight),
            received,
        )
        if not is_next:
            return self._receive_all()
        rounds.settle(keys.all(), received)
        return _Taken(number, True, [(sent.fragment, received[:-1])])

    def _receive_all(self) -> _Taken:
        """What has changed, of all, since the worker has taken it."""
        parameters = [p for each in self._fragments for p in each.parameters]
        received = _memory_like(parameters)
        # Of no round: it is to be received again where there is one.
        self._client.pull(self._keys.all(), received)
        number = self._rounds.settle(self._keys.all(), received)
        values, left = [], iter(received)
        for i, fragment in enumerate(self._fragments):
            its_values = [next(left) for _ in fragment.parameters]
            if fragment.round != self._last_round_of(i, number):
                values.append((fragment, its_values))
        return _Taken(number, False, values)

    def _last_round_of(self, index: int, number: int) -> int:
        """The last round of that fragment, up to that of the number; <= 0."""
        return number - (number - 1 - index) % len(self._fragments)

    def _take(self, taken: _Taken) -> None:
        """Has the worker go on from there."""
        unplaced = []
        for fragment, values in taken.values:
            mixed = values
            if taken.is_next and self._alpha:
                mixed = [
                    (value - self._alpha * moved(value, own)).to(value.dtype)
                    for value, own in zip(values, fragment.on_host())
                ]
            unplaced.append((fragment, mixed))
        self._unplaced = unplaced
        for fragment, values in taken.values:
            fragment.start = values
            index = self._fragments.index(fragment)
            fragment.round = self._last_round_of(index, taken.number)
            fragment.num_tokens *= self._alpha if taken.is_next else 0.0
        sent = self._sent
        if sent and all(each is not sent.fragment for each, _ in taken.values):
            # The server has gone back to where the moves begin.
            sent.fragment.num_tokens += sent.weight
        # Whoever was not in it begins the next one later than the others.
        self._is_behind = taken.number > 0 and not self._rounds.is_in
        self._sent = None
        self._local_step = 0
        self._rounds.number = taken.number

    def _place(self) -> None:
        """Puts in place what the worker has taken."""
        for fragment, values in self._unplaced:
            put_back(fragment.parameters, values)
        self._unplaced = []


def _memory_like(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """What parameters, and the number of their round, are received in."""
    memory = [torch.empty(each.shape, dtype=each.dtype) for each in tensors]
    return [*memory, torch.from_numpy(round_value(0))]


def _check_are_apart(fragments: List[_Fragment]) -> None:
    places: Dict[torch.Tensor, str] = {}
    for fragment in fragments:
        for name, parameter in zip(fragment.names, fragment.parameters):
            other = places.setdefault(parameter, name)
            if other != name:
                raise InvalidArgumentError(
                    f"model_fragments: expected a parameter in one of them, "
                    f"got it as {other!r} and as {name!r}"
                )


def _interval_of(sync_every: int, num_fragments: int) -> int:
    if num_fragments < 1 or sync_every < 1 or sync_every % num_fragments:
        raise InvalidArgumentError(
            f"sync_every: expected a multiple of the number of fragments, "
            f"{num_fragments}, got {sync_every}"
        )
    return sync_every // num_fragments


def _check_delay(delay: int, alpha: float, interval: int) -> None:
    if not 0 <= delay < interval:
        raise InvalidArgumentError(
            f"fragment_sync_delay: expected from 0 to {interval - 1}, less "
            f"than the steps of a round, got {delay}"
        )
    if not 0 <= alpha <= 1:
        raise InvalidArgumentError(
            f"fragment_update_alpha: expected from 0 to 1, got {alpha}"
        )
