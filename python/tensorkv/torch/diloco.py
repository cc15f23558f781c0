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
from tensorkv.torch._tensors import moved, on_host, put_back, wide
from tensorkv.torch.optimizer import outer_rule_of

OuterOptimizer = Union[ServerOptimizer, torch.optim.Optimizer]


class _Fragment:
    """Parameters that are exchanged in the same rounds.

    Attributes:
      names: of the parameters, as the keys have them.
      start: the values of the parameters after the last round of the fragment.
      round: the number of that round; None where the worker does not know it.
      num_tokens: those on which the parameters have moved since.
    """

    def __init__(self, index: int, module: torch.nn.Module):
        named = {
            name: parameter
            for name, parameter in module.named_parameters()
            if parameter.requires_grad
        }
        complex_ones = [n for n, p in named.items() if p.is_complex()]
        if not named or complex_ones:
            raise InvalidArgumentError(
                f"model_fragments: expected real parameters that are trained "
                f"in each, got {complex_ones or 'none'} in number {index}"
            )
        self.index = index
        self.names = [f"{index}/{name}" for name in named]
        self.parameters = list(named.values())
        self.start: List[torch.Tensor] = []
        self.round: Optional[int] = None
        self.num_tokens = 0.0

    def on_host(self) -> List[torch.Tensor]:
        return [on_host(each) for each in self.parameters]

    def is_at(self, values: Sequence[torch.Tensor]) -> bool:
        """Returns whether these are the values where the moves begin."""
        return bool(self.start) and all(map(torch.equal, self.start, values))


@dataclasses.dataclass
class _Sent:
    """The contribution to the next round, until the worker has that round."""

    fragment: _Fragment
    moves: List[torch.Tensor]
    weight: float
    # Of the call that is under way, if one is.
    taken: Optional["Future[_Taken]"] = None


@dataclasses.dataclass
class _Taken:
    """Fragments as rounds up to a number have made them.

    Attributes:
      is_next: whether it is the next round alone, to which a worker has sent.
      is_in: whether the round is known to have counted the worker.
    """

    number: int
    is_next: bool
    is_in: bool
    values: List[Tuple[_Fragment, List[torch.Tensor]]]


@dataclasses.dataclass
class _Change:
    """A fragment as the worker goes on with it."""

    fragment: _Fragment
    start: List[torch.Tensor]
    values: List[torch.Tensor]
    num_tokens: float


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
    round; of one server a pull of all is of one moment. Buffers, and what is
    not trained, stay each worker's own, and so does the state of its inner
    optimizer.

    A worker is awaited from when it is made: make it last, before the loop. Use
    it on one thread.
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
        manager the client stands for. All workers have the same fragments.

        Args:
          client: one that has not joined. Its namespace is made, unless it is
            there; then it is as it was made, and so are the rules of the keys.
            It has one model. With the client's `set_compression` less is sent.
          model_fragments: a list of parts of a model, or a module, which is
            one part, whatever it consists of.
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
        number of fragments, a parameter is complex or in two of them, or the
        server has other parameters than these; UnimplementedError for an
        optimizer that no rule stands for; FailedPreconditionError where the
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
        # A look at whether they have come to its end.
        self._look: Optional["Future[bool]"] = None
        self._sent: Optional[_Sent] = None
        # The round that has ended, and has yet to be put in place.
        self._ended: Optional[Tuple[_Taken, List[_Change]]] = None
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
            self._end_with(self._receive_changed())
        except BaseException:
            client.leave()
            raise

    @property
    def round(self) -> int:
        """Returns the number of the last round that the model here has."""
        return self._rounds.number

    @property
    def is_in(self) -> bool:
        """Says whether the last round is known to have counted this worker.

        Else it was closed without, and what the worker had moved by is gone.
        """
        return self._rounds.is_in

    def step(self, num_tokens: float = 1.0) -> bool:
        """Counts a step of the inner optimizer; returns whether a round ended.

        Where it ends with an error, the next step makes up for it: what has
        arrived counts once, and in its own round alone.

        Args:
          num_tokens: on which the worker has trained in the step. Its part in
            a mean is that of its tokens since the last round of the fragment.

        Errors: InvalidArgumentError for a number that is negative or not
        finite, or moves that an encoding does not take, such as NaN: then they
        are sent as they are in the next step; those of Client.push_pull.
        """
        if not 0 <= num_tokens < math.inf:
            raise InvalidArgumentError(
                f"num_tokens: expected a finite number of at least 0, got "
                f"{num_tokens!r}"
            )
        if self._ended is not None:  # An earlier step was interrupted.
            self._go_on()
            return True
        self._local_step += 1
        for fragment in self._fragments:
            fragment.num_tokens += num_tokens
        if self._sent is None and self._is_awaited():
            self._local_step = max(self._local_step, self._send_at)
            self._send()
        if self._local_step < self._interval:
            return False
        self._end_with(self._await_round())
        return True

    def leave(self) -> None:
        """Closes the client: the worker makes no more rounds, nobody waits.

        Where the worker has sent to a round, waits for it, so that this counts;
        whatever error that ends with, the client is closed.
        """
        try:
            if self._sent is not None:
                self._await_round()
        finally:
            self._thread.close()
            self._client.leave()

    # --- Rounds -------------------------------------------------------------

    def _is_awaited(self) -> bool:
        """Returns whether the worker is to send its moves."""
        if self._local_step >= self._send_at:
            return True
        if not self._is_behind:
            return False
        look = self._look
        if look is None or look.done():
            self._look = self._thread.submit(self._has_open_rounds)
        return look is not None and look.done() and look.result()

    def _has_open_rounds(self) -> bool:
        # An error shows again when the worker sends.
        with contextlib.suppress(Error):
            return self._client.describe_namespace().rounds_open > 0
        return False

    def _fragment_of(self, number: int) -> _Fragment:
        return self._fragments[(number - 1) % len(self._fragments)]

    def _send(self) -> None:
        fragment = self._fragment_of(self._rounds.number + 1)
        moves = list(map(moved, fragment.start, fragment.on_host()))
        sent = _Sent(fragment, moves, fragment.num_tokens)
        fragment.num_tokens = 0.0
        self._sent = sent
        self._begin_exchange(sent)

    def _begin_exchange(self, sent: _Sent) -> "Future[_Taken]":
        sent.taken = self._thread.submit(lambda: self._exchange(sent))
        return sent.taken

    def _await_round(self) -> _Taken:
        """Returns what has come of the round that it has sent to."""
        sent = self._sent
        assert sent is not None
        # Its call may have failed before.
        call = sent.taken or self._begin_exchange(sent)
        try:
            return call.result()
        except BaseException:
            # This thread may be interrupted while the call goes on.
            error = call.exception() if call.done() else None
            if error is not None:
                sent.taken = None
            if isinstance(error, InvalidArgumentError):
                # Nothing was pushed, and it would be refused again.
                sent.fragment.num_tokens += sent.weight
                self._sent = None
            raise

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
            self._has_my_model,
        )
        if not is_next:
            return self._receive_changed()
        is_in = rounds.has_counted(number)
        return _Taken(number, True, is_in, [(sent.fragment, received[:-1])])

    def _has_my_model(self) -> bool:
        """Returns whether the server has the model that moves are from."""
        number, values = self._pull(self._fragments)
        return number == self._rounds.number and all(
            fragment.is_at(its_values) for fragment, its_values in values
        )

    def _receive_changed(self) -> _Taken:
        """Receives the fragments that have changed since the worker took them.

        Once the server has gone back, numbers may be of another model.
        """
        rounds, number_key = self._rounds, self._keys.all()[-1]
        number_there, _ = self._pull([])
        while True:
            received = [torch.from_numpy(round_value(number_there))]
            number = rounds.settle([number_key], received)
            changed = [
                each
                for each in self._fragments
                if rounds.has_gone_back
                or each.round != self._last_round_of(each, number)
            ]
            number_there, values = self._pull(changed)
            if number_there == int(received[0]):
                break
        values = [each for each in values if not each[0].is_at(each[1])]
        is_in = rounds.has_counted(number)
        return _Taken(number, False, is_in, values)

    def _pull(
        self, fragments: Sequence[_Fragment]
    ) -> Tuple[int, List[Tuple[_Fragment, List[torch.Tensor]]]]:
        """Reads the number of the last round, and fragments."""
        names = [name for each in fragments for name in each.names]
        received = _memory_like([p for f in fragments for p in f.parameters])
        keys = ModelKeys(self._keys.name, names, [])
        self._client.pull(keys.all(), received)
        left = iter(received)
        values = [(f, [next(left) for _ in f.parameters]) for f in fragments]
        return int(received[-1]), values

    def _last_round_of(self, fragment: _Fragment, number: int) -> int:
        """Returns its last round up to that number, or at most 0."""
        return number - (number - 1 - fragment.index) % len(self._fragments)

    def _end_with(self, taken: _Taken) -> None:
        """Has the worker go on from what was taken, in the next round."""
        mixes = taken.is_next and taken.is_in
        changes = [
            _Change(
                fragment,
                values,
                self._mixed(fragment, values) if mixes else values,
                fragment.num_tokens * self._alpha if mixes else 0.0,
            )
            for fragment, values in taken.values
        ]
        sent = self._sent
        if (
            sent is not None
            and not taken.is_in
            and all(each.fragment is not sent.fragment for each in changes)
        ):
            # Nothing has come of its moves, which begin where they did.
            weight = sent.fragment.num_tokens + sent.weight
            start, ends = sent.fragment.start, sent.fragment.on_host()
            changes.append(_Change(sent.fragment, start, ends, weight))
        self._ended = taken, changes
        self._go_on()

    def _mixed(
        self, fragment: _Fragment, values: List[torch.Tensor]
    ) -> List[torch.Tensor]:
        if not self._alpha:
            return values
        return [
            torch.lerp(wide(value), wide(own), self._alpha).to(value.dtype)
            for value, own in zip(values, fragment.on_host())
        ]

    def _go_on(self) -> None:
        """Goes on from the round that has ended; may be done again."""
        assert self._ended is not None
        taken, changes = self._ended
        for change in changes:
            put_back(change.fragment.parameters, change.values)
            change.fragment.start = change.start
            change.fragment.num_tokens = change.num_tokens
        for fragment in self._fragments:
            fragment.round = self._last_round_of(fragment, taken.number)
        self._sent = None
        self._local_step = 0
        self._look = None
        # Whoever was not in it begins the next one later than the others.
        self._is_behind = not taken.is_in and (
            taken.number > 0 or self._rounds.came_late
        )
        self._rounds.has_gone_back = False
        self._rounds.take(taken.number, taken.is_in)
        self._ended = None


def _memory_like(tensors: Sequence[torch.Tensor]) -> List[torch.Tensor]:
    """Makes memory for parameters, and for the number of their round."""
    memory = [torch.empty(each.shape, dtype=each.dtype) for each in tensors]
    return [*memory, torch.from_numpy(round_value(0))]


def _check_are_apart(fragments: List[_Fragment]) -> None:
    names: Dict[torch.Tensor, str] = {}
    for fragment in fragments:
        for name, parameter in zip(fragment.names, fragment.parameters):
            other = names.setdefault(parameter, name)
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
