"""Workers of DiLoCo that wait, come later, are late, fail or are killed."""

import contextlib
import functools
import itertools
import math
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import threading
import unittest
import unittest.mock
from concurrent.futures import Future

import numpy as np
import tensorkv
import torch

sys.path.insert(0, os.path.dirname(__file__))
import diloco_victim
from diloco_group import (
    GroupTest,
    Model,
    fragments_of,
    module_of,
    tokens_of,
    values_of,
)
from failing_store import FailingStore
from servers import RestartableServer
from stores import ADDRESS, new_namespace

from tensorkv.federated import FedAvg

# Fork from a process that has PyTorch, and no client.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["tensorkv.torch"])


def zeros():
    return torch.nn.ParameterDict({"w": torch.nn.Parameter(torch.zeros(3))})


def interrupt():
    """Does what Ctrl-C does."""
    raise KeyboardInterrupt


def interrupted_once(function, when):
    """The function, whose first call is interrupted before or after it."""
    left = [when]

    def called(*args):
        if left == ["before"]:
            left.pop()
            interrupt()
        result = function(*args)
        if left:
            left.pop()
            interrupt()
        return result

    return called


def tokens_in(moves):
    """Of each worker, from what its element of the mean has moved by."""
    roots = moves.clamp(min=0).sqrt()
    return [round(float(each)) for each in roots * roots.sum()]


def read_log(name):
    """Tokens of rounds that have counted a worker, and those of no such."""
    rounds, unfinished, tokens = {}, [], 0
    with open(name) as file:
        for line in file:
            if line.startswith("round 0"):
                unfinished.append(tokens)
            elif line.startswith("round"):
                rounds[int(line.split()[1])] = tokens
            elif line.startswith("start"):
                unfinished.append(tokens)
            else:
                tokens += int(line)
                continue
            tokens = 0
    return rounds, [*unfinished, tokens]


class LivingWorkersTest(GroupTest):

    def test_a_worker_trains_while_what_it_sent_waits_for_the_others(self):
        first, second = self.join_many(
            2, lambda: module_of((3,)), sync_every=5, fragment_sync_delay=3
        )
        for diloco in (first, second):
            # The first ends its third step before the second has begun.
            for _ in range(4):
                self.assertFalse(diloco.step())
        ended = self.together([first, second], lambda each: each.step())
        self.assertEqual(ended, [True, True])

    def test_who_comes_later_takes_the_model_and_sends_with_the_others(self):
        first, second = self.join_many(
            2, lambda: module_of((3,)), sync_every=20, outer_optimizer=FedAvg()
        )
        self.together([first, second], lambda each: self.train(each, 0, 1))
        # It would come to the end of a round by itself much later.
        third = self.join(
            module_of((3,), seed=1),
            first._client.namespace,
            sync_every=1_000_000,
        )
        self.assertEqual(third.round, 1)
        (start,) = self.values(first)
        by = {first: 0.0, second: 1.0, third: 5.0}

        def work(diloco):
            """Moves by `by`, on 4 tokens or 3."""
            (parameter,) = diloco._fragments[0].parameters
            np.testing.assert_array_equal(parameter.detach(), start)
            with torch.no_grad():
                parameter -= by[diloco]
            diloco.step(4 if diloco is third else 3)
            while diloco.round < 2:
                diloco.step(0)
            return parameter.detach()

        for values in self.together(list(by), work):
            np.testing.assert_allclose(
                values, start - (3 * 0 + 3 * 1 + 4 * 5) / 10
            )

    def test_nobody_waits_for_who_comes_in_the_first_round(self):
        namespace = new_namespace()
        first = self.join(module_of((3,)), namespace, sync_every=2)
        first.step()
        second = self.join(module_of((3,)), namespace, sync_every=1_000_000)

        def work(diloco):
            while not diloco.round:
                diloco.step()

        self.together([first, second], work)
        self.assertTrue(second.is_in)

    def test_who_is_late_misses_its_round_and_goes_on_with_the_others(self):
        *others, late = self.join_many(
            3,
            lambda: [module_of((2,)), module_of((2,))],
            quorum=2,
            deadline=0.05,
            sync_every=2,
        )
        self.together(
            others, lambda each: self.train(each, others.index(each), 7)
        )
        with torch.no_grad():
            for fragment in late._fragments:
                fragment.parameters[0] += 1000
        self.assertTrue(late.step())
        self.assertFalse(late.is_in)
        self.assertEqual(late.round, 7)
        for fragment, theirs in zip(late._fragments, self.values(late)):
            ours = fragment.parameters[0].detach()
            np.testing.assert_array_equal(ours, theirs)
        late._client.update_namespace(
            late._client.namespace, quorum=0, quorum_grace=0.0
        )
        self.together([*others, late], lambda each: each.step())
        self.assertTrue(late.is_in)
        self.assertLess(np.abs(self.values(late)).max(), 100)


class FailingWorkersTest(GroupTest):

    def join_two(self, delay=0, **options):
        return self.join_many(
            2,
            zeros,
            sync_every=2,
            fragment_sync_delay=delay,
            outer_optimizer=FedAvg(),
            **options,
        )

    @contextlib.contextmanager
    def failing(self, diloco, when, call):
        """Has a call of the worker fail, which comes in the block."""
        store = diloco._client._store
        failing = FailingStore(store, when, call, interrupt)
        diloco._client._store = failing
        yield
        diloco._client._store = store
        self.assertTrue(failing.has_failed)

    def interrupted(self, step):
        with contextlib.suppress(KeyboardInterrupt):
            step()

    def make_round(self, group):
        """Has the workers move by 2 and 10, and meet."""

        def work(diloco):
            with torch.no_grad():
                diloco._fragments[0].parameters[0] += (
                    10 if group.index(diloco) else 2
                )
            while not diloco.round:
                self.interrupted(diloco.step)

        self.together(group, work)
        for diloco in group:
            self.assertEqual(diloco.round, 1)
            values = diloco._fragments[0].parameters[0].detach()
            np.testing.assert_array_equal(values, np.full(3, 6.0, "float32"))

    def test_who_fails_at_any_call_makes_up_for_it(self):
        for when, delay in itertools.product(("before", "after"), (0, 1)):
            with self.subTest(when=when, delay=delay):
                group = self.join_two(delay)
                with self.failing(group[1], when, 0):
                    self.make_round(group)

    def test_who_fails_at_any_call_when_it_is_late_makes_up_for_it(self):
        for when, call in itertools.product(("before", "after"), range(3)):
            with self.subTest(when=when, call=call):
                first, late = self.join_two(quorum=1)
                self.train(first, 0, 5)
                with self.failing(late, when, call):
                    while not late.round:
                        self.interrupted(late.step)
                self.assertEqual(late.round, 5)
                self.assertFalse(late.is_in)
                self.assert_same(first, late)

    def test_who_is_interrupted_makes_up_for_it(self):
        places = (
            (Future, "result", 6.0),
            (tensorkv.torch.diloco, "put_back", 2.5),
        )
        for (owner, name, tokens), when in itertools.product(
            places, ("before", "after")
        ):
            with self.subTest(name, when=when):
                (diloco,) = self.join_many(
                    1,
                    lambda: module_of((3,)),
                    sync_every=2,
                    fragment_sync_delay=1,
                    fragment_update_alpha=0.5,
                    outer_optimizer=FedAvg(),
                )
                (fragment,) = diloco._fragments
                (parameter,) = fragment.parameters
                start = parameter.detach().clone()
                parameter.data += 4
                diloco.step(3)
                parameter.data += 2
                function = interrupted_once(getattr(owner, name), when)
                with unittest.mock.patch.object(owner, name, function):
                    with self.assertRaises(KeyboardInterrupt):
                        diloco.step(5)
                    self.assertTrue(diloco.step(7))
                self.assertTrue(diloco.is_in)
                # The server's 4, and its own 6; of that 5 tokens, or 12.
                np.testing.assert_allclose(parameter.detach() - start, 5)
                self.assertEqual(fragment.num_tokens, tokens)


class EndedServerTest(GroupTest):

    def test_the_server_may_end(self):
        server = RestartableServer(self)
        make = functools.partial(fragments_of, [[(2,)], [(3,)]])
        group = [
            self.join(make(), "n", server.address, num_workers=2)
            for _ in range(2)
        ]

        def train(rounds):
            self.together(
                group, lambda each: self.train(each, group.index(each), rounds)
            )

        expected = Model(values_of(make()), range(2), interval=2)
        train(3)
        expected.train(range(3))
        reader = self.open_client(server.address, namespace="n")
        reader.save_checkpoint()
        train(6)
        server.kill()
        server.start()
        # They go back to the third, with what they find out in a seventh.
        self.together(group, lambda each: [each.step() for _ in range(2)])
        self.assertEqual([each.round for each in group], [3, 3])
        self.assert_same(*group)
        train(7)
        expected.go_back()
        expected.train(range(3, 7))
        self.check_values(group[0], expected)

    def test_moves_of_a_model_that_is_gone_count_in_none_of_its_number(self):
        server = RestartableServer(self)
        make = functools.partial(fragments_of, [[(2,)], [(3,)]])
        options = {"num_workers": 3, "quorum": 2, "deadline": 0.05}
        group = [
            self.join(make(), "n", server.address, **options) for _ in range(3)
        ]
        *others, slow = group
        reader = self.open_client(server.address, namespace="n")
        everybody = functools.partial(self.together, group)
        everybody(lambda each: self.train(each, group.index(each), 3))
        reader.save_checkpoint()
        everybody(lambda each: self.train(each, group.index(each), 4))
        before = self.values(slow)
        server.kill()
        server.start()
        self.together(others, lambda each: [each.step() for _ in range(2)])
        self.together(others, lambda each: self.train(each, 1, 4))
        self.assertFalse(np.array_equal(self.values(slow)[1], before[1]))
        self.assertEqual(slow.round, 4)
        for _ in range(2):
            with torch.no_grad():
                for fragment in slow._fragments:
                    fragment.parameters[0] += 1000
            slow.step()
        self.assertFalse(slow.is_in)
        # Of round 3 there was one alone: what it has moved by is of that.
        kept, gone = slow._fragments
        tokens = tokens_of(2, 6) + tokens_of(2, 7) + 2
        self.assertEqual((kept.num_tokens, gone.num_tokens), (tokens, 0.0))
        for array in self.values(slow):
            self.assertLess(np.abs(array).max(), 100)
        (ours,), theirs = gone.parameters, self.values(slow)[1]
        np.testing.assert_array_equal(ours.detach(), theirs)


class KilledWorkerTest(GroupTest):
    """A worker that is killed misses, and does nothing else."""

    def start(self, work, *arguments):
        process = processes.Process(target=work, args=arguments, daemon=True)
        process.start()
        self.addCleanup(process.join)
        self.addCleanup(process.kill)
        return process

    def test_the_example_runs_as_it_stands(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        logs = [f"{folder.name}/{i}" for i in range(2)]
        namespace = new_namespace()
        workers = [
            self.start(
                diloco_victim.run_example,
                *(log, f"--target={ADDRESS}", f"--namespace={namespace}"),
                *("--workers=2", "--rounds=6", "--sync_every=8"),
                *("--fragments=2", "--delay=1", "--alpha=0.5"),
                *("--width=16", "--length=8", "--batch_size=4"),
            )
            for log in logs
        ]
        losses = []
        for worker, log in zip(workers, logs):
            worker.join()
            self.assertEqual(worker.exitcode, 0)
            with open(log) as file:
                losses.append(re.search("loss ([0-9.]+) after 6", file.read()))
        self.assertLess(float(losses[0][1]), math.log(256))

    def survivors(self, namespace):
        options = {"outer_optimizer": FedAvg(), "num_workers": 2}
        return [
            self.join(zeros(), namespace, sync_every=1, **options)
            for _ in range(2)
        ]

    def check_rounds(self, survivors, goes_on):
        """Makes rounds in which w moves by what survivors, or all, bring.

        Returns by how much it has, once each.
        """

        def work(diloco):
            brings, seen = 1 + 2 * survivors.index(diloco), set()
            (parameter,) = diloco._fragments[0].parameters
            while True:
                before = parameter.detach().clone()
                goes_on_now = goes_on(diloco)
                with torch.no_grad():
                    parameter += brings
                self.assertTrue(diloco.step(2))
                self.assertTrue(diloco.is_in)
                moved = (parameter.detach() - before).numpy()
                # Of 1 and 3 by 2 tokens each, and 8 by 2, or 16 by 4.
                self.assertIn(moved.max(), (2, 4, 9))
                self.assertEqual(moved.max(), moved.min())
                seen.add(float(moved.max()))
                if not goes_on_now:
                    return diloco.round, parameter.detach().numpy(), seen

        ends = self.together(survivors, work)
        self.assertEqual(ends[0][0], ends[1][0])
        self.assert_array(ends[0][1], ends[1][1])
        return ends[0][2]

    def test_a_worker_killed_at_any_call_beside_others(self):
        for (when, delay), call in itertools.product(
            (("before", 0), ("after", 1)), (*range(11), 30)
        ):
            with self.subTest(when=when, call=call, delay=delay):
                namespace = new_namespace()
                survivors = self.survivors(namespace)
                victim = self.start(
                    diloco_victim.end_at_call,
                    *(ADDRESS, namespace, when, call, delay),
                )
                # The other has what they agree on.
                rounds = {}
                lock = threading.Lock()

                def goes_on(diloco):
                    with lock:
                        return rounds.setdefault(
                            diloco.round, victim.is_alive()
                        )

                seen = self.check_rounds(survivors, goes_on)
                self.assertEqual(victim.exitcode, -signal.SIGKILL)
                if call == 30:
                    self.assertTrue(seen & {4, 9})

    def test_a_worker_killed_at_any_call_before_others_come(self):
        for call in range(8):
            with self.subTest(call=call):
                namespace = new_namespace()
                victim = self.start(
                    diloco_victim.end_at_call,
                    *(ADDRESS, namespace, "before", call, 0),
                )
                victim.join()
                self.assertEqual(victim.exitcode, -signal.SIGKILL)
                survivors = self.survivors(namespace)
                last = survivors[0].round + 3
                self.check_rounds(survivors, lambda each: each.round < last)

    def test_every_token_of_a_training_with_kills_is_accounted_for(self):
        num_workers, rounds = 3, 12
        namespace = new_namespace()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        logs = [f"{folder.name}/{i}" for i in range(num_workers)]

        def start(worker):
            return self.start(
                diloco_victim.train,
                *(ADDRESS, namespace, num_workers, worker, logs[worker]),
            )

        workers = {i: start(i) for i in range(1, num_workers)}
        module = diloco_victim.Tally(num_workers)
        diloco = diloco_victim.join(ADDRESS, namespace, module, num_workers, 0)
        self.addCleanup(diloco._client.close)
        counted, own, losses = [], [], []
        while diloco.round < rounds:
            before = module.tokens.detach().clone()
            own.append(0)
            ended = False
            while not ended:
                module.train_on(0, 2)
                own[-1] += 2
                ended = diloco.step(2)
            counted.append(tokens_in(before - module.tokens.detach()))
            losses.append(module.loss())
            if diloco.round % 4 == 2:
                worker = 1 + diloco.round // 4 % 2
                workers[worker].kill()
                workers[worker].join()
                workers[worker] = start(worker)
        for each in workers.values():
            each.kill()
            each.join()
        diloco.leave()

        self.assertEqual([each[0] for each in counted], own)
        for worker in range(1, num_workers):
            in_rounds, unfinished = read_log(logs[worker])
            by_round = {
                number: each[worker]
                for number, each in enumerate(counted, start=1)
                if each[worker]
            }
            self.assertTrue(in_rounds)
            # What it knows to have counted has, by as many tokens as it had.
            for number, tokens in in_rounds.items():
                if number <= rounds:
                    self.assertEqual(by_round.pop(number), tokens)
            # What else has counted it had sent before it was killed.
            for tokens in by_round.values():
                self.assertIn(tokens, unfinished)
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    unittest.main()
