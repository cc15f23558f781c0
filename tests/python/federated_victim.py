"""A client of a federated training that kills itself at one of its calls.

  federated_victim.py ADDRESS NAMESPACE before|after CALL

At its CALL-th call of the store, from 0 on, it ends without a word, before the
call is made or when it has ended.
"""

import os
import signal
import sys

import numpy as np
import tensorkv
from tensorkv.federated import FederatedAveraging


class Mortal:
    """The store of a client, until its last call."""

    def __init__(self, store, when, call):
        self._store = store
        self._when = when
        self._left = call

    def __getattr__(self, name):
        attribute = getattr(self._store, name)
        if not callable(attribute) or name.startswith("_"):
            return attribute

        def called(*args):
            left, self._left = self._left, self._left - 1
            if left == 0 and self._when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return attribute(*args)
            finally:
                if left == 0:
                    os.kill(os.getpid(), signal.SIGKILL)

        return called


def main():
    address, namespace, when, call = sys.argv[1:]
    client = tensorkv.Client(address, namespace=namespace, timeout=60)
    client._store = Mortal(client._store, when, int(call))
    arrays = {"w": np.zeros(3), "n": np.array(0)}
    averaging = FederatedAveraging(
        arrays, client, worker_name="victim", lease=0.5
    )
    while True:
        arrays["w"] += 8
        arrays["n"] += 8
        averaging.average(weight=2)


if __name__ == "__main__":
    main()
