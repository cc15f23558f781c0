"""The vocabulary of KVStore: what several workers of a server see."""

import os
import subprocess
import sys
import threading
import unittest
import unittest.mock

import numpy as np
import tensorkv

sys.path.insert(0, os.path.dirname(__file__))
from stores import ADDRESS, StoreTest, full, new_namespace
from tensorkv import RowSparseArray


# Namespaces, of which the first is whole or does not go on.
NAMESPACES = [
    {"mode": "sync", "num_workers": 2},
    {"mode": "sync", "num_workers": 2, "on_worker_loss": "continue"},
    {"mode": "sync", "num_workers": 2, "quorum": 1, "quorum_grace": 0.1},
    {"mode": "sync", "num_workers": 1, "max_workers": 2},
    {"mode": "async"},
]

# A worker that is killed.
LOST = """
import os, tensorkv
tensorkv.create(
    "dist_sync", target={address!r}, namespace={namespace!r}, lease=2)
os._exit(0)
"""


class GroupTest(StoreTest):
    """Two workers."""

    def test_init_takes_the_value_of_rank_0(self):
        stores = self.open_group("dist_sync", 2)

        def work(kv):
            kv.init(3, full(10 + kv.rank))
            return kv.pull(3)

        self.assert_array(self.together(stores, work), [full(10)] * 2)

    def test_who_waits_for_an_init_reads_the_smallest_value(self):
        kv, other = self.open_group("dist_sync", 2)
        keys, values = [1, 2], [full(1, shape=(9, 9)), full(2)]
        pull = unittest.mock.Mock(wraps=other.client.pull)

        def init():
            with unittest.mock.patch.object(other.client, "pull", pull):
                other.init(keys, values)

        waiting = threading.Thread(target=init)
        waiting.start()
        while kv.client.describe_namespace().calls_waiting == 0:
            pass
        kv.init(keys, values)
        waiting.join()
        self.assertEqual([call.args for call in pull.mock_calls], [("2",)])

    def test_init_of_another_shape_is_refused(self):
        kv, other = self.open_group("dist_sync", 2)
        kv.init(3, full(1))
        for value in (full(1, shape=(9,)), full(1, "float64")):
            with self.assertRaises(tensorkv.InvalidArgumentError):
                other.init(3, value)

    def test_pushes_are_summed_over_workers(self):
        stores = self.open_group("dist_sync", 2)

        def work(kv):
            kv.init([1, 2], [full(0), full(0)])
            sums = []
            for i in range(20):
                kv.push([1, 2], [full(i + kv.rank), [full(1), full(kv.rank)]])
                sums.append([array[0, 0] for array in kv.pull([1, 2])])
            return sums

        for sums in self.together(stores, work):
            self.assertEqual(sums, [[2 * i + 1, 3] for i in range(20)])

    def test_residuals_of_seven_workers(self):
        stores = self.open_group("dist_sync", 7)

        def work(kv):
            kv.set_gradient_compression({"type": "2bit", "threshold": 0.5})
            kv.set_optimizer("accumulate", scale=2)
            kv.barrier()
            kv.init("g", full(0))
            sums = []
            for gradient in (0, 0.4, 0.1, 0.2, 0.3, 0.5):
                kv.push("g", full(gradient))
                sums.append(kv.pull("g")[0, 0])
            return sums

        for sums in self.together(stores, work):
            self.assertEqual(sums, [0, 0, 7, 7, 14, 21])

    def test_rows_are_summed_over_workers(self):
        stores = self.open_group("dist_sync", 2)

        def work(kv):
            kv.init("e", full(5, shape=(1000, 2)))
            data = full(1 + kv.rank, shape=(2, 2))
            kv.push("e", RowSparseArray(data, [7, 900 + kv.rank]))
            out = full(9, shape=(1000, 2))
            kv.row_sparse_pull("e", out, row_ids=np.array([7, 901, 0]))
            return out

        expected = full(0, shape=(1000, 2))
        expected[[7, 901, 0]] = [[3], [2], [5]]
        self.assert_array(self.together(stores, work), [expected] * 2)

    def test_order_of_keys_is_each_workers_own(self):
        stores = self.open_group("dist_sync", 2)

        def work(kv):
            kv.init(["a", "b"], [full(0), full(0)])
            for key in ("aabb", "baba")[kv.rank]:
                kv.push(key, full(1))
            return [array[0, 0] for array in kv.pull(["a", "b"])]

        self.assertEqual(self.together(stores, work), [[2, 2]] * 2)

    def test_push_pull_is_an_all_reduce(self):
        for kind in ("dist_sync", "byteps"):
            stores = self.open_group(kind, 2)

            def work(kv):
                kv.init("g", full(0))
                for i in range(10):
                    gradient = full(i + kv.rank)
                    kv.push_pull("g", gradient)
                    self.assert_array(gradient, full(2 * i + 1))

            self.together(stores, work)

    def test_mixed_push_and_push_pull_meet(self):
        stores = self.open_group("dist_sync", 2)

        def work(kv):
            kv.init("g", full(0))
            if kv.rank == 0:
                return kv.push_pull("g", full(1))
            kv.push("g", full(2))
            return kv.pull("g")

        self.assert_array(self.together(stores, work), [full(3)] * 2)

    def test_pushed_arrays_are_free_before_the_round_closes(self):
        kv, other = self.open_group("dist_sync", 2)
        kv.init("g", full(0))
        gradient = full(1)
        kv.push("g", gradient)
        gradient[:] = 9
        other.push("g", full(1))
        self.assert_array(kv.pull("g"), full(2))

    def test_rounds_count_workers_and_four_are_open(self):
        kv, other = self.open_group("dist_sync", 2)
        kv.init("g", full(0))
        for i in range(4):
            kv.push("g", full(i))
        with self.assertRaises(tensorkv.ResourceExhaustedError):
            kv.push("g", full(4))
        self.assertEqual(kv.client.stat("g").version, 1)
        for i in range(4):
            other.push("g", full(10))
            self.assert_array(other.pull("g"), full(10 + i))
        kv.push("g", full(4))
        other.push("g", full(10))
        self.assert_array(kv.pull("g"), full(14))

    def test_a_push_that_failed_has_no_step_of_any_key(self):
        kv, other = stores = self.open_group("dist_sync", 2)

        def work(kv):
            kv.init([1, 2], [full(0), full(0)])
            kv.push(2, full(1))
            # The next steps of the two keys differ.
            if kv is other:
                for push in (kv.push, kv.push_pull):
                    with self.assertRaises(ValueError):
                        push([1, 2], [full(1, shape=(3, 2)), full(1)])
            kv.push([1, 2], [full(2), full(3 + kv.rank)])
            return kv.pull([1, 2])

        for values in self.together(stores, work):
            self.assert_array(values, [full(4), full(7)])

    def test_optimizer_runs_once_per_round(self):
        stores = self.open_group("dist_sync", 2)

        def work(kv):
            kv.set_optimizer("sgd", learning_rate=1.0)
            kv.barrier()
            kv.init("w", full(10))
            for _ in range(3):
                kv.push("w", full(1))
            return kv.pull("w")

        self.assert_array(self.together(stores, work), [full(4)] * 2)

    def test_async_pushes_are_applied_one_by_one(self):
        stores = self.open_group("dist_async", 2)

        def work(kv):
            kv.set_optimizer("accumulate", scale=2)
            kv.init("w", full(0))
            for _ in range(25):
                kv.push("w", full(1))
            kv.barrier()
            return kv.pull("w")

        self.assert_array(self.together(stores, work), [full(100)] * 2)

    def test_byteps_only_sums(self):
        kv = self.open("byteps")
        self.assertFalse(kv.is_capable("optimizer"))
        with self.assertRaises(NotImplementedError):
            kv.set_optimizer("sgd")

    def test_a_worker_comes_back(self):
        kv, other = self.open_group("dist_sync", 2)
        namespace = kv.client.namespace
        kv.init("w", full(0))
        name = next(
            w.name
            for w in kv.client.describe_namespace().workers
            if w.rank == other.rank
        )

        def step(store):
            return store.push_pull("w", full(1 + store.rank))

        for _ in range(3):
            self.together([kv, other], step)
        other.close()
        other = self.open(
            "dist_sync", namespace=namespace, worker_name=name, resume=True
        )
        self.assertEqual(other.rank, 1)
        other.init("w", full(0))
        for _ in range(3):
            self.assert_array(
                self.together([kv, other], step), [full(3)] * 2
            )

    def test_a_later_run_finds_the_keys(self):
        namespace = new_namespace()

        def run(count=2, **options):
            stores = [
                self.open(
                    "dist_sync",
                    namespace=namespace,
                    num_workers=count,
                    **options,
                )
                for _ in range(count)
            ]

            def work(kv):
                kv.init("w", full(0))
                return kv.push_pull("w", full(kv.rank + 1))

            try:
                return self.together(stores, work)
            finally:
                for store in stores:
                    store.leave()

        self.assert_array(run(), [full(3)] * 2)
        # Each of them, whether it makes the keys or waits for them.
        for is_first in (True, False):
            stores = [
                self.open("dist_sync", namespace=namespace) for _ in range(2)
            ]
            store = next(s for s in stores if (s.rank == 0) == is_first)
            with self.assertRaisesRegex(
                tensorkv.AlreadyExistsError, "resume=True"
            ) as raised:
                store.init("w", full(0))
            self.assertEqual(raised.exception.key, "w")
            for each in stores:
                each.leave()
        self.assert_array(run(resume=True), [full(3)] * 2)
        with self.open_client(namespace=namespace) as client:
            client.delete("w")
        self.assert_array(run(), [full(3)] * 2)

    def open_workers(self, config, namespace, names=(None, None), **options):
        with self.open_client() as client:
            client.create_namespace(namespace, **config, on_existing="keep")
        stores = [
            self.open(
                "dist_" + config["mode"],
                namespace=namespace,
                worker_name=name,
                **options,
            )
            for name in names
        ]
        return sorted(stores, key=lambda store: store.rank)

    def begin(self, stores):
        """Two steps, and what came last."""

        def work(kv):
            kv.init("w", full(0))
            for _ in range(2):
                kv.push("w", full(kv.rank + 1))
                value = kv.pull("w")
            return value

        return self.together(stores, work)

    def test_every_rank_of_a_later_run_is_refused(self):
        for config in NAMESPACES:
            for names in ((None, None), ("w0", "w1")):
                with self.subTest(config=config, names=names):
                    namespace = new_namespace()
                    stores = self.open_workers(config, namespace, names)
                    self.begin(stores)
                    for store in stores:
                        store.leave()
                    later = self.open_workers(config, namespace, names)
                    before = later[0].client.stat("w")
                    for store in reversed(later):
                        with self.assertRaises(tensorkv.AlreadyExistsError):
                            store.init("w", full(0))
                    self.assertEqual(later[0].client.stat("w"), before)
                    for store in later:
                        store.leave()
                    self.begin(
                        self.open_workers(
                            config, namespace, names, resume=True
                        )
                    )

    def test_who_takes_a_place_in_a_run_takes_what_is_stored(self):
        for config in NAMESPACES[1:]:
            for is_lost in (False, True):
                with self.subTest(config=config, is_lost=is_lost):
                    namespace = new_namespace()
                    first, other = self.open_workers(config, namespace)
                    self.begin([first, other])
                    first._end(is_lost)
                    other.push("w", full(7))
                    value = other.pull("w")
                    [later] = self.open_workers(config, namespace, [None])
                    self.assertEqual(later.rank, 0)
                    later.init("w", full(0))
                    self.assert_array(later.pull("w"), value)
                    with self.assertRaises(tensorkv.AlreadyExistsError):
                        later.init("w", full(0))

    def test_ranks_of_a_launcher_are_taken(self):
        namespace = new_namespace()
        for rank in (1, 0):
            environment = {"RANK": str(rank), "WORLD_SIZE": "2"}
            with unittest.mock.patch.dict(os.environ, environment):
                kv = self.open("dist_sync", namespace=namespace)
            self.assertEqual((kv.rank, kv.num_workers), (rank, 2))
        # A group of another size has no use for them.
        with unittest.mock.patch.dict(os.environ, environment):
            kv = self.open("dist_sync", num_workers=1)
        self.assertEqual((kv.rank, kv.num_workers), (0, 1))

    def test_a_full_group_says_who_is_there(self):
        kv = self.open("dist_sync", worker_name="trainer-7")
        with self.assertRaisesRegex(
            tensorkv.ResourceExhaustedError, "trainer-7"
        ):
            self.open("dist_sync", namespace=kv.client.namespace, lease=1)

    def test_whoever_is_lost_is_waited_for(self):
        namespace = new_namespace()
        client = self.open_client(namespace=namespace)
        client.create_namespace(namespace, mode="sync", num_workers=1)
        # It is a worker without a renewal of its lease.
        program = LOST.format(address=ADDRESS, namespace=namespace)
        subprocess.run([sys.executable, "-c", program], check=True)
        kv = self.open("dist_sync", namespace=namespace, lease=2)
        self.assertEqual(kv.rank, 0)


if __name__ == "__main__":
    unittest.main()
