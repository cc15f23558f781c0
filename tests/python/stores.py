"""What tests of the Python package share: stores, and workers on threads."""

import functools
import itertools
import os
import threading
import unittest

import numpy as np
import tensorkv

ADDRESS = os.environ["TENSORKV_TARGET"]

_numbers = itertools.count()


def new_namespace():
    """A name that no other test has."""
    return f"test-{os.getpid()}-{next(_numbers)}"


def full(value, dtype="float32", shape=(2, 3)):
    return np.full(shape, value, dtype)


def on_every_client(test):
    """A test that is run with each of the `clients`, by name, of its case."""

    @functools.wraps(test)
    def run(self):
        for name, client in self.clients.items():
            with self.subTest(name):
                test(self, client)

    return run


class StoreTest(unittest.TestCase):
    """Has stores that are closed when the test ends."""

    def open(self, kind="local", **options):
        if kind.startswith(("dist", "byteps")):
            options = {
                "target": ADDRESS,
                "namespace": new_namespace(),
                "timeout": 60,
                **options,
            }
        store = tensorkv.create(kind, **options)
        self.addCleanup(store.close)
        return store

    def open_client(self, address=ADDRESS, **options):
        client = tensorkv.Client(address, **options)
        self.addCleanup(client.close)
        return client

    def open_group(self, kind, num_workers):
        namespace = new_namespace()
        stores = [
            self.open(kind, namespace=namespace, num_workers=num_workers)
            for _ in range(num_workers)
        ]
        return sorted(stores, key=lambda store: store.rank)

    def together(self, stores, work):
        """Runs work(store) for each store at the same time; the results."""
        results = [None] * len(stores)

        def run(i):
            try:
                results[i] = work(stores[i])
            except Exception as error:
                results[i] = error

        threads = [
            threading.Thread(target=run, args=(i,)) for i in range(len(stores))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, Exception):
                raise result
        return results

    def assert_array(self, actual, expected):
        np.testing.assert_array_equal(actual, expected, strict=True)
