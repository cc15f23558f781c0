"""tensorkv.federated: rounds of clients that come, go and are late."""

import contextlib
import doctest
import itertools
import os
import signal
import subprocess
import sys
import threading
import unittest
import unittest.mock

import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from failing_store import FailingStore
from servers import RestartableServer
from stores import ADDRESS, StoreTest, new_namespace

from tensorkv.federated import (
    FedAdagrad,
    FedAdam,
    FedAvg,
    FedAvgM,
    FederatedAveraging,
    FedYogi,
)

VICTIM = os.path.join(os.path.dirname(__file__), "federated_victim.py")


def oracle(optimizer, w, mean_moves):
    """The values after steps along these, in f64."""
    o, kind = optimizer, type(optimizer)
    m, v = np.zeros_like(w), np.zeros_like(w)
    for t, g in enumerate(mean_moves, start=1):
        rate, divisor = o.learning_rate, 1
        if kind is FedAvg:
            m = g
        elif kind is FedAvgM:
            m = o.momentum * m + g
        elif kind is FedAdagrad:
            m, v = g, v + g * g
        else:
            m = o.beta1 * m + (1 - o.beta1) * g
            if kind is FedAdam:
                v = o.beta2 * v + (1 - o.beta2) * g * g
            else:
                v = v - (1 - o.beta2) * g * g * np.sign(v - g * g)
        if kind is FedAdam and o.correct_bias:
            rate *= np.sqrt(1 - o.beta2 ** (t + 1)) / (1 - o.beta1 ** (t + 1))
        if kind not in (FedAvg, FedAvgM):
            divisor = np.sqrt(v) + o.tau
        w = w - rate * m / divisor
    return w


def interrupt():
    """Does what Ctrl-C does."""
    raise KeyboardInterrupt


class FederatedTest(StoreTest):

    def join(self, arrays, namespace, address=ADDRESS, **options):
        client = self.open_client(address, namespace=namespace, timeout=60)
        return FederatedAveraging(arrays, client, **options)

    def join_many(self, count, arrays, **options):
        """A group that is complete, each with arrays of its own."""
        namespace = new_namespace()
        options = {"num_clients": count, **options}
        return [
            self.join(
                {k: a.copy() for k, a in arrays.items()}, namespace, **options
            )
            for _ in range(count)
        ]

    def move(self, averaging, by, weight=1):
        for array in averaging._model.values():
            array += by
        return averaging.average(weight)

    def test_every_optimizer_makes_steps_of_the_weighted_mean(self):
        weights = np.array([5, 0.5, 0, 40])
        for number, optimizer in enumerate(
            [
                FedAvg(),
                FedAvg(0.5),
                FedAvgM(0.7, 0.8),
                FedAdam(),
                FedAdam(0.05, 0.8, 0.95, 1e-2, correct_bias=False),
                FedYogi(0.1),
                FedAdagrad(),
            ]
        ):
            random = np.random.default_rng(number)
            first = random.normal(size=(4, 5))
            group = self.join_many(
                4,
                {"f64": first, "f32": first.astype("float32")},
                optimizer=optimizer,
            )
            rounds = random.normal(size=(5, 4, 4, 5))

            def work(averaging):
                i = group.index(averaging)
                for moves in rounds:
                    for array in averaging._model.values():
                        array -= moves[i].astype(array.dtype)
                    self.assertTrue(averaging.average(weights[i]))

            with self.subTest(optimizer):
                self.together(group, work)
                means = (
                    np.tensordot(weights, rounds, ([0], [1])) / weights.sum()
                )
                expected = oracle(optimizer, first, means)
                for averaging in group:
                    self.assertEqual(averaging.round, 5)
                    model = averaging._model
                    np.testing.assert_allclose(model["f64"], expected, 1e-12)
                    np.testing.assert_allclose(
                        model["f32"], expected, 2e-5, 2e-5
                    )

    def test_narrow_floats_lose_nothing_of_small_moves(self):
        group = self.join_many(2, {"w": np.ones(3, "float16")})
        for _ in range(8):
            # By the least that there is, of which the mean is half.
            group[0]._model["w"] += np.float16(1 / 1024)
            self.together(group, lambda each: each.average())
        expected = np.full(3, 1 + 4 / 1024, "float16")
        self.assert_array(group[0]._model["w"], expected)

    def test_integers_become_the_mean_and_bools_what_most_have(self):
        arrays = {
            "count": np.array(7),
            "narrow": np.full(2, 250, "uint8"),
            "flag": np.array([True, True]),
            "w": np.zeros(2, "float32"),
        }
        group = self.join_many(3, arrays, optimizer=FedAdam())
        more, weights = [2, 3, 8], [1, 3, 1]

        def work(averaging):
            i = group.index(averaging)
            averaging._model["count"] += more[i]
            averaging._model["narrow"] -= np.uint8(i)
            averaging._model["flag"][i % 2] = False
            averaging.average(weights[i])

        self.together(group, work)
        for averaging in group:
            model = averaging._model
            self.assert_array(model["count"], np.array(11))
            self.assert_array(model["narrow"], np.full(2, 249, "uint8"))
            self.assert_array(model["flag"], np.array([True, False]))

    def test_rounds_of_no_weight_leave_the_model_and_count(self):
        group = self.join_many(2, {"w": np.ones(2)})
        for weight, expected in ((0, 1), (1, 6)):
            self.together(group, lambda each: self.move(each, 5, weight))
            for averaging in group:
                self.assert_array(
                    averaging._model["w"], np.full(2, expected * 1.0)
                )
        self.assertEqual([each.round for each in group], [2, 2])

    def test_what_is_no_weight_is_refused(self):
        (averaging,) = self.join_many(1, {"w": np.ones(2)})
        for weight in (-1, float("nan"), float("inf")):
            with self.assertRaises(ValueError):
                averaging.average(weight)
        self.assertTrue(self.move(averaging, 1))

    def test_who_comes_later_takes_the_model_and_takes_part(self):
        first, second = self.join_many(2, {"w": np.zeros(2)})
        self.together([first, second], lambda each: self.move(each, 3))
        model = {"w": np.full(2, 99.0)}
        third = self.join(model, first._client.namespace, optimizer=FedAdam())
        self.assertEqual(third.round, 1)
        self.assert_array(model["w"], np.full(2, 3.0))
        by = {first: 0, second: 1, third: 5}
        self.together(list(by), lambda each: self.move(each, by[each]))
        for averaging in by:
            self.assert_array(averaging._model["w"], np.full(2, 5.0))

    def test_who_leaves_or_is_lost_only_misses(self):
        *others, leaving, lost = self.join_many(
            4, {"w": np.zeros(2)}, lease=0.5
        )
        leaving.leave()
        # It is not there any more, and could not say so.
        lost._client._store.close(True)
        self.together(others, lambda each: self.move(each, 3))
        for averaging in others:
            self.assert_array(averaging._model["w"], np.full(2, 3.0))

    def test_who_is_late_misses_its_round_and_goes_on_with_the_others(self):
        *others, late = self.join_many(
            3, {"w": np.zeros(2)}, quorum=2, deadline=0.05
        )
        for _ in range(7):  # more than may be open
            counted = self.together(others, lambda each: self.move(each, 1))
            self.assertEqual(counted, [True, True])
        self.assertFalse(self.move(late, 1000))
        self.assertEqual(late.round, 7)
        self.assert_array(late._model["w"], np.full(2, 7.0))
        by = {others[0]: 0, others[1]: 0, late: 6}
        counted = self.together(
            list(by), lambda each: self.move(each, by[each])
        )
        self.assertEqual(counted, [True] * 3)
        self.assert_array(late._model["w"], np.full(2, 9.0))

    def test_who_waits_in_vain_makes_the_round_again(self):
        first, second = self.join_many(2, {"w": np.zeros(2)}, timeout=0.2)
        with self.assertRaises(tensorkv.DeadlineExceededError):
            self.move(first, 4)
        self.together(
            [first, second],
            lambda each: (
                each.average() if each is first else self.move(each, 6)
            ),
        )
        self.assert_array(first._model["w"], np.full(2, 5.0))
        self.assert_array(second._model["w"], np.full(2, 5.0))

    def test_who_fails_at_any_call_makes_the_round_again(self):
        for when, call in itertools.product(("before", "after"), range(5)):
            for others_go_on in (False, True):
                with self.subTest(
                    when=when, call=call, others_go_on=others_go_on
                ):
                    self.check_failing_call(when, call, others_go_on)

    def check_failing_call(self, when, call, others_go_on):
        """Has a call of a client fail, or what puts the model in place."""
        options = {"quorum": 1} if others_go_on else {}
        first, failing = self.join_many(2, {"w": np.zeros(2)}, **options)
        failing._model["w"] += 10
        store, put = failing._client._store, failing._put
        failing._client._store = FailingStore(store, when, call, interrupt)
        if call == 4:  # after all that it makes
            failing._put = unittest.mock.Mock(side_effect=KeyboardInterrupt)

        def make(averaging):
            if averaging is first:
                return self.move(first, 2)
            with contextlib.suppress(KeyboardInterrupt):
                return failing.average()
            failing._client._store, failing._put = store, put
            return failing.average()

        if others_go_on:
            self.assertTrue(make(first))
            self.assertFalse(make(failing))
        else:
            counted = self.together([first, failing], make)
            self.assertTrue(counted[0])
        expected = 2.0 if others_go_on else 6.0
        for averaging in (first, failing):
            self.assertEqual(averaging.round, 1)
            self.assert_array(averaging._model["w"], np.full(2, expected))
        failing._client._store, failing._put = store, put

    def test_moves_count_in_no_later_round(self):
        first, late = self.join_many(2, {"w": np.zeros(2)}, quorum=1)
        self.move(first, 1)
        late._model["w"] += 1000
        push_pull = late._client.push_pull

        def lose_reply(*args):
            push_pull(*args)
            raise KeyboardInterrupt

        with unittest.mock.patch.object(
            late._client, "push_pull", lose_reply
        ), self.assertRaises(KeyboardInterrupt):
            late.average()
        self.assertFalse(late.average())
        self.assertEqual(late.round, 1)
        self.assert_array(late._model["w"], np.full(2, 1.0))

    def test_a_second_model_begins_where_the_group_is(self):
        (first,) = self.join_many(1, {"w": np.zeros(2)})
        for _ in range(3):
            self.move(first, 1)
        first.leave()
        other = self.join(
            {"w": np.zeros(2)}, first._client.namespace, name="b", timeout=5
        )
        self.assertTrue(self.move(other, 4))
        self.assertEqual(other.round, 4)
        self.assert_array(other._model["w"], np.full(2, 4.0))

    def test_who_does_not_get_in_is_not_waited_for(self):
        arrays = {"w": np.zeros(2)}
        (first,) = self.join_many(1, arrays, timeout=60)
        namespace = first._client.namespace
        with unittest.mock.patch.object(
            FederatedAveraging, "_take", side_effect=KeyboardInterrupt
        ), self.assertRaises(KeyboardInterrupt):
            self.join(arrays, namespace)
        self.assertTrue(self.move(first, 1))

    def test_sums_in_the_order_of_arrival_are_the_same_means(self):
        group = self.join_many(3, {"w": np.zeros(2)}, sum_order="arrival")
        self.assertEqual(
            group[0]._client.describe_namespace().sum_order, "arrival"
        )
        self.together(
            group, lambda each: self.move(each, 3 * group.index(each))
        )
        self.assert_array(group[0]._model["w"], np.full(2, 3.0))

    def test_the_server_may_end(self):
        server = RestartableServer(self)
        group = [
            self.join({"w": np.zeros(2)}, "n", server.address, num_clients=2)
            for _ in range(2)
        ]
        self.together(group, lambda each: self.move(each, 1))
        server.restart()
        counted = self.together(group, lambda each: self.move(each, 1))
        self.assertEqual(counted, [True, True])
        for averaging in group:
            self.assertEqual(averaging.round, 2)
            self.assert_array(averaging._model["w"], np.full(2, 2.0))

    def test_moves_of_a_model_that_is_gone_count_in_none_of_its_number(self):
        server = RestartableServer(self)
        options = {"num_clients": 3, "quorum": 2, "deadline": 0.05}
        group = [
            self.join({"w": np.zeros(2)}, "n", server.address, **options)
            for _ in range(3)
        ]
        *others, slow = group
        self.together(group, lambda each: self.move(each, 1))
        self.open_client(server.address, namespace="n").save_checkpoint()
        self.together(group, lambda each: self.move(each, 1))
        server.kill()
        server.start()
        # They go back, and make another round of the number.
        self.together(others, lambda each: each.average())
        self.together(others, lambda each: self.move(each, 5))
        self.assertEqual([each.round for each in group], [2, 2, 2])
        self.assertFalse(self.move(slow, 1000))
        self.assertEqual(slow.round, 2)
        self.assert_array(slow._model["w"], others[0]._model["w"])
        self.assertLess(slow._model["w"].max(), 10)

    def test_what_does_not_fit_is_refused(self):
        arrays = {"w": np.zeros(2), "n": np.zeros(2, "int32")}
        with self.assertRaisesRegex(
            tensorkv.FailedPreconditionError, "another namespace"
        ):
            self.join(arrays, "")
        with self.assertRaisesRegex(tensorkv.InvalidArgumentError, "quorum"):
            self.join(arrays, new_namespace(), deadline=1)
        for options in ({"name": "a*"}, {"model": {".w": np.zeros(2)}}):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                self.join(
                    options.pop("model", arrays), new_namespace(), **options
                )
        (averaging,) = self.join_many(1, arrays)
        for model in (
            {**arrays, "w": np.zeros(3)},
            {**arrays, "w": np.zeros(2, "float32")},
            {**arrays, "v": np.zeros(2)},
            {"w": arrays["w"]},
        ):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                self.join(model, averaging._client.namespace)
        # Nobody waits for who was refused.
        self.assertTrue(self.move(averaging, 1))
        namespace = new_namespace()
        self.open_client().create_namespace(
            namespace, mode="sync", aggregation="mean", num_workers=1
        )
        with self.assertRaisesRegex(
            tensorkv.FailedPreconditionError, "on_worker_loss"
        ):
            self.join(arrays, namespace)

    def test_the_page_runs_as_it_stands(self):
        failed, attempted = doctest.testfile(
            os.path.abspath("docs/federated.md"), module_relative=False
        )
        self.assertEqual(failed, 0)
        self.assertGreater(attempted, 8)


class KilledClientTest(StoreTest):
    """A client that is killed misses, and does nothing else."""

    def start(self, namespace, when, call):
        victim = subprocess.Popen(
            [sys.executable, VICTIM, ADDRESS, namespace, when, str(call)]
        )
        self.addCleanup(victim.wait)
        self.addCleanup(victim.kill)
        return victim

    def survivors(self, namespace):
        survivors = []
        for _ in range(2):
            client = self.open_client(namespace=namespace, timeout=60)
            arrays = {"w": np.zeros(3), "n": np.array(0)}
            survivors.append(FederatedAveraging(arrays, client, num_clients=2))
        return survivors

    def check_rounds(self, survivors, goes_on):
        """Rounds in which w moves by what survivors, or all, bring."""

        def work(averaging):
            model = averaging._model
            brings = 1 + 2 * survivors.index(averaging)
            while True:
                before = model["w"].copy(), model["n"].copy()
                goes_on_now = goes_on(averaging)
                model["w"] += brings
                model["n"] += brings
                self.assertTrue(averaging.average())
                # Of 1, 3, and twice 8.
                for moved in (model["w"] - before[0], model["n"] - before[1]):
                    self.assertIn(moved.max(), (2, 5))
                    self.assertEqual(moved.max(), moved.min())
                if not goes_on_now:
                    return averaging.round, model["w"]

        return self.together(survivors, work)

    def test_a_client_killed_at_any_call_beside_others(self):
        for when, call in itertools.product(("before", "after"), range(9)):
            with self.subTest(when=when, call=call):
                namespace = new_namespace()
                survivors = self.survivors(namespace)
                victim = self.start(namespace, when, call)
                # The other has what they agree on.
                rounds = {}
                lock = threading.Lock()

                def goes_on(averaging):
                    with lock:
                        return rounds.setdefault(
                            averaging.round, victim.poll() is None
                        )

                ends = self.check_rounds(survivors, goes_on)
                self.assertEqual(victim.wait(), -signal.SIGKILL)
                self.assertEqual(ends[0][0], ends[1][0])
                self.assert_array(ends[0][1], ends[1][1])

    def test_a_client_killed_at_any_call_before_others_come(self):
        for when, call in itertools.product(("before", "after"), range(10)):
            with self.subTest(when=when, call=call):
                namespace = new_namespace()
                victim = self.start(namespace, when, call)
                self.assertEqual(victim.wait(), -signal.SIGKILL)
                survivors = self.survivors(namespace)
                last = survivors[0].round + 3
                self.check_rounds(survivors, lambda each: each.round < last)


if __name__ == "__main__":
    unittest.main()
