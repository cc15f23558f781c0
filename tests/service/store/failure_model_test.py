#!/usr/bin/env python3
"""A model of groups that fail and end, explored completely.

A sync group of fixed size whose on_worker_loss is FAIL. Workers push each key
of a step in a call of its own (the hardest case), then wait for all of them,
then go on. Any worker may be killed and started again, or lose its lease while
it lives, at any moment. It may leave when it has pushed all keys of a step,
before or after it has waited for them (who ends within a step says that it is
lost), and another process may then take its rank: a new run is one whose ranks
have all left. Checked in every reachable state:
  - a round closes with one contribution of every rank, in the order of steps;
  - a worker passes over no step whose round may still need its rank;
  - no push is a gap: none passes over an open round that waits for its rank;
  - who has left since a worker joined is not there, so that WORKER_LEFT never
    names a rank that somebody has, or that nobody of this run has had yet;
  - without further failures the group can finish: nobody waits for ever.

The store does the same; failing_groups_test.cc drives schedules through it.

usage: failure_model_test.py [workers keys steps failures leaves]
       default: several small groups
"""
import sys
from collections import deque
from typing import NamedTuple

# Of a worker: no process; a process that must join; a member; nobody any more.
DEAD, FENCED, LIVE, LEFT = "dead", "fenced", "live", "left"
GROUPS = ((2, 2, 2, 2, 2), (3, 1, 2, 1, 2), (3, 2, 1, 1, 2), (2, 1, 3, 1, 3),
          (3, 2, 2, 1, 1))


class State(NamedTuple):
    closed: tuple  # by key, the last closed step
    held: frozenset  # contributions (key, step, rank) to open rounds
    owed: frozenset  # (rank, key, step), dropped and not pushed again
    workers: tuple  # by rank, (what, step, how many keys of it are pushed)
    leased: frozenset  # the ranks that the server takes for members
    last: tuple  # by rank, the highest step that it has contributed to
    # By rank, who has left since its worker joined, be it that the worker was
    # lost and has come back.
    left_since: tuple
    failures: int  # how many may come yet
    leaves: int  # of those that come before the last step

    def with_worker(self, rank, worker):
        return self._replace(workers=put(self.workers, rank, worker))


def put(values, place, value):
    return values[:place] + (value,) + values[place + 1:]


class Group:
    """A server does not know which keys belong to a step: only workers do."""

    def __init__(self, workers, keys, steps, failures, leaves):
        self.ranks, self.keys, self.steps = range(workers), range(keys), steps
        self.start = State(
            closed=(0,) * keys, held=frozenset(), owed=frozenset(),
            workers=((LIVE, 1, 0),) * workers, leased=frozenset(self.ranks),
            last=(0,) * workers, left_since=(frozenset(),) * workers,
            failures=failures, leaves=leaves)

    def close(self, state):
        closed, held = list(state.closed), set(state.held)
        for k in self.keys:
            while all((k, closed[k] + 1, r) in held for r in self.ranks):
                closed[k] += 1
                held -= {(k, closed[k], r) for r in self.ranks}
        return state._replace(closed=tuple(closed), held=frozenset(held))

    def push(self, state, rank):
        """Pushes the next key of the worker's step. Idempotent; refused while
        an earlier step of that key is owed."""
        _, step, k = state.workers[rank]
        earlier = [s for r, key, s in state.owed
                   if r == rank and key == k and s < step]
        if earlier:  # Aborted: go back to that step, all of it
            return state.with_worker(rank, (LIVE, min(earlier), 0))
        if step > state.closed[k] and (k, step, rank) not in state.held:
            gaps = self.lacking(state, rank, k)
            assert min(gaps, default=step) >= step, (
                f"rank {rank} passes over step {min(gaps)}: {state}")
            state = self.close(state._replace(
                held=state.held | {(k, step, rank)},
                owed=state.owed - {(rank, k, step)}))
        last = max(state.last[rank], step)
        return state._replace(
            last=put(state.last, rank, last)).with_worker(
                rank, (LIVE, step, k + 1))

    def wait(self, state, rank):
        """Makes the pull of the step. None while it must wait, or ends with
        WORKER_LEFT and may be made again."""
        _, step, _ = state.workers[rank]
        mine = [s for r, _, s in state.owed if r == rank and s <= step]
        if mine:  # Aborted
            return state.with_worker(rank, (LIVE, min(mine), 0))
        if min(state.closed) < step:
            return None
        return state.with_worker(rank, (LIVE, step + 1, 0))

    def lacking(self, state, rank, key):
        """Returns the steps of a key whose open rounds wait for the rank."""
        return [s for k, s, _ in state.held
                if k == key and (k, s, rank) not in state.held]

    def lose(self, state, rank):
        """The lease of a rank ends: rounds that lack its contribution fail,
        and the later rounds of their keys."""
        held, owed = state.held, state.owed
        for k in self.keys:
            lacking = self.lacking(state, rank, k)
            if lacking:
                dropped = {c for c in held
                           if c[0] == k and c[1] >= min(lacking)}
                held -= dropped
                owed |= {(r, k, s) for _, s, r in dropped}
        worker = state.workers[rank]
        if worker[0] == LIVE:
            state = state.with_worker(rank, (FENCED,) + worker[1:])
        return state._replace(held=held, owed=owed,
                              leased=state.leased - {rank})

    def owed_by(self, state, rank):
        return [s for r, _, s in state.owed if r == rank]

    def join(self, state, rank):
        """Gives a new epoch to who was lost, and tells the last step that the
        rank has contributed to, or a lower one that it owes: the worker pushes
        that again, all of it. What had closed is answered as repeated; what
        had not been pushed joins now."""
        step = min(self.owed_by(state, rank) + [max(state.last[rank], 1)])
        return state._replace(leased=state.leased | {rank}).with_worker(
            rank, (LIVE, step, 0))

    def leave(self, state, rank):
        """Fails no round, and nobody owes anything because of it."""
        left_since = tuple(left if r == rank else left | {rank}
                           for r, left in enumerate(state.left_since))
        return state._replace(
            left_since=left_since,
            leased=state.leased - {rank}).with_worker(rank, (LEFT, 0, 0))

    def take(self, state, rank):
        """Gives another process a rank whose worker has left, and tells it the
        lowest step that the rank owes or that an open round awaits of it, else
        the step after the last: who leaves is done with that one. Nobody has
        left since it joined."""
        steps = self.owed_by(state, rank) + [state.last[rank] + 1]
        for k in self.keys:
            steps += self.lacking(state, rank, k)
        left_since = tuple(left - {rank} for left in state.left_since)
        return state._replace(
            left_since=put(left_since, rank, frozenset()),
            leased=state.leased | {rank}).with_worker(
                rank, (LIVE, min(steps), 0))

    def moves(self, state, fails=False):
        for r in self.ranks:
            what, step, keys = state.workers[r]
            if what == DEAD and r not in state.leased or what == FENCED:
                yield self.join(state, r)
            if what == DEAD and r in state.leased:
                yield self.lose(state, r)
            if what == LEFT:
                yield self.take(state, r)
            if what != LIVE:
                continue
            if step > self.steps:
                yield self.leave(state, r)
                continue
            after = (self.push(state, r) if keys < len(self.keys)
                     else self.wait(state, r))
            if after is not None:
                yield after
            if fails and state.failures:
                fewer = state._replace(failures=state.failures - 1)
                yield fewer.with_worker(r, (DEAD, 0, 0))
                yield self.lose(fewer, r)
            is_done_with_last = (
                step == state.last[r] + 1 and keys == 0 or
                step == state.last[r] and keys == len(self.keys))
            if fails and state.leaves and is_done_with_last:
                yield self.leave(
                    state._replace(leaves=state.leaves - 1), r)

    def check(self, state):
        for k, s, r in state.held:
            assert s > state.closed[k], "an open round is above closed ones"
            assert (r, k, s) not in state.owed, "what is held is not owed"
        for r in self.ranks:
            what, step, _ = state.workers[r]
            for k in self.keys if what == LIVE else ():
                for s in range(state.closed[k] + 1, step):
                    assert (k, s, r) in state.held or (r, k, s) in state.owed, (
                        f"rank {r} has passed over step {s}: {state}")
            for other in state.left_since[r]:
                assert state.workers[other][0] == LEFT, "it is there"

    def explore(self):
        seen, todo = {self.start}, deque([self.start])
        while todo:
            state = todo.popleft()
            self.check(state)
            for after in self.moves(state, fails=True):
                if after not in seen:
                    seen.add(after)
                    todo.append(after)
        return seen

    def is_finished(self, state):
        return min(state.closed) >= self.steps and all(
            what == LEFT or what == LIVE and step > self.steps
            for what, step, _ in state.workers)

    def stuck(self, seen):
        """Returns the states from which the group cannot finish, even if
        nothing fails any more."""
        back = {}
        for state in seen:
            for after in self.moves(state):
                back.setdefault(after, []).append(state)
        good = {state for state in seen if self.is_finished(state)}
        todo = deque(good)
        while todo:
            for before in back.get(todo.popleft(), ()):
                if before not in good:
                    good.add(before)
                    todo.append(before)
        return seen - good


def main():
    sizes = [tuple(int(x) for x in sys.argv[1:])] if sys.argv[1:] else GROUPS
    num_stuck = 0
    for size in sizes:
        group = Group(*size)
        seen = group.explore()
        stuck = group.stuck(seen)
        print("%d workers, %d keys, %d steps, %d failures, %d leaves: "
              "%d states, %d from which the group cannot finish" %
              (size + (len(seen), len(stuck))), flush=True)
        if stuck:
            print("for example:", min(stuck, key=str))
        num_stuck += len(stuck)
    return 1 if num_stuck else 0


if __name__ == "__main__":
    sys.exit(main())
