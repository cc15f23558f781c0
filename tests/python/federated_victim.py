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
from failing_store import FailingStore
from tensorkv.federated import FederatedAveraging


def end():
    os.kill(os.getpid(), signal.SIGKILL)


def main():
    address, namespace, when, call = sys.argv[1:]
    client = tensorkv.Client(address, namespace=namespace, timeout=60)
    client._store = FailingStore(client._store, when, int(call), end)
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
