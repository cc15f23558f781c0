"""A worker made only of generated stubs, which trains on whatever happens.

It decides by the reasons of errors alone, never by a message's text: another
worker may die, this one may be taken for dead, the server may be restarted.
Usage: python_worker.py STUBS_DIRECTORY SERVER NAMESPACE NAME

It reads from stdin up to how many steps to train, and writes to stdout the
reasons of the errors that it went on from, and at last "done STEPS WEIGHT".
"""

import sys
import threading
import time

import grpc
import numpy as np

sys.path.insert(0, sys.argv[1])

import google_rpc_pb2
from tensorkv.v1 import data_pb2
from tensorkv.v1 import membership_pb2
from tensorkv.v1 import namespace_pb2
from tensorkv.v1 import rule_pb2
from tensorkv.v1 import service_pb2_grpc
from tensorkv.v1 import tensor_pb2

NUM_WORKERS = 2
LEASE_SECONDS = 1
INCARNATION = "tensorkv-incarnation"


def to_tensor(array):
    return tensor_pb2.Tensor(
        dtype=tensor_pb2.DTYPE_F64, shape=array.shape, data=array.tobytes()
    )


def reason_of(error):
    """The reason of a failed call, or "" if it has none."""
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        for detail in google_rpc_pb2.Status.FromString(value).details:
            info = google_rpc_pb2.ErrorInfo()
            if detail.Unpack(info) and info.domain == "tensorkv":
                return info.reason
    return ""


class Worker:

    def __init__(self, server, namespace, name):
        channel = grpc.insecure_channel(
            server, options=[("grpc.max_reconnect_backoff_ms", 500)]
        )
        self.data = service_pb2_grpc.DataStub(channel)
        self.namespaces = service_pb2_grpc.NamespacesStub(channel)
        self.membership = service_pb2_grpc.MembershipStub(channel)
        self.namespace = namespace
        self.name = name
        self.incarnation = None  # of the server that this worker has seen
        self.worker = None  # rank and epoch, as a member
        self.step = 0  # the next to push
        # What is trained, and by how many steps: all that a worker needs to
        # begin anew on an empty server.
        self.weights = np.zeros(4)
        self.done = np.zeros(1)
        threading.Thread(target=self.keep_alive, daemon=True).start()

    def call(self, method, request, timeout=20):
        """Makes a call that expects the server to be the same as before."""
        expected = [(INCARNATION, self.incarnation)] if self.incarnation else []
        reply, call = method.with_call(
            request, timeout=timeout, metadata=expected
        )
        if self.incarnation is None:
            self.incarnation = dict(call.initial_metadata())[INCARNATION]
        return reply

    def begin(self):
        """Makes this a member of the group; what is there already stays."""
        self.call(
            self.namespaces.CreateNamespace,
            namespace_pb2.CreateNamespaceRequest(
                namespace=self.namespace,
                config=namespace_pb2.NamespaceConfig(
                    mode=namespace_pb2.MODE_SYNC,
                    num_workers=NUM_WORKERS,
                    rule=rule_pb2.Rule(name="accumulate"),
                ),
                on_existing=namespace_pb2.ON_EXISTING_KEEP,
            ),
        )
        init = data_pb2.InitRequest(
            namespace=self.namespace,
            on_existing=namespace_pb2.ON_EXISTING_KEEP,
        )
        init.entries.add(key="weights", tensor=to_tensor(self.weights))
        init.entries.add(key="done", tensor=to_tensor(self.done))
        self.call(self.data.Init, init)
        join = membership_pb2.JoinRequest(
            namespace=self.namespace, worker_name=self.name
        )
        join.lease.seconds = LEASE_SECONDS
        joined = self.call(self.membership.Join, join)
        pull = data_pb2.PullRequest(namespace=self.namespace)
        pull.entries.add(key="weights")
        pull.entries.add(key="done")
        self.read(self.call(self.data.Pull, pull))
        self.step = joined.next_step
        self.worker = joined.worker

    def read(self, reply):
        self.weights, self.done = (
            np.frombuffer(value.tensor.data) for value in reply.values
        )

    def make_step(self):
        """Pushes the step, all of it in one call, and reads the outcome."""
        gradient = np.full(4, (self.worker.rank + 1) * (self.done[0] + 1))
        request = data_pb2.PushPullRequest()
        request.push.namespace = self.namespace
        request.push.worker.CopyFrom(self.worker)
        request.push.step = self.step
        request.push.entries.add(key="weights", tensor=to_tensor(gradient))
        if self.worker.rank == 0:
            request.push.entries.add(key="done", tensor=to_tensor(np.ones(1)))
        else:
            request.push.entries.add(key="done", skip=True)
        self.read(self.call(self.data.PushPull, request))
        self.step += 1

    def train(self, num_steps):
        while self.done[0] < num_steps:
            try:
                if self.worker is None:
                    self.begin()
                self.make_step()
            except grpc.RpcError as error:
                self.recover(error)

    def recover(self, error):
        """Makes ready to push the same step again, or raises the error."""
        reason = reason_of(error)
        print("reason", reason or error.code().name, flush=True)
        if reason in ("LEASE_LOST", "NOT_MEMBER"):
            self.worker = None
        elif reason == "SERVER_RESTARTED":
            self.worker = None
            self.incarnation = None
        elif reason == "WORKER_NAME_TAKEN" or error.code() in (
            grpc.StatusCode.UNAVAILABLE,
            grpc.StatusCode.CANCELLED,  # by a server that stops
        ):
            time.sleep(0.1)
        elif reason not in ("ROUND_FAILED", "WAIT_ENDED") and (
            error.code() != grpc.StatusCode.DEADLINE_EXCEEDED
        ):
            raise error

    def keep_alive(self):
        while True:
            time.sleep(LEASE_SECONDS / 3)
            worker = self.worker
            if worker is None:
                continue
            request = membership_pb2.KeepAliveRequest(
                namespace=self.namespace, worker=worker
            )
            try:
                self.call(self.membership.KeepAlive, request, LEASE_SECONDS / 6)
            except grpc.RpcError:
                pass  # a step will hear of it


def main():
    worker = Worker(*sys.argv[2:])
    for line in sys.stdin:
        worker.train(int(line))
        print("done", int(worker.done[0]), worker.weights[0], flush=True)


main()
