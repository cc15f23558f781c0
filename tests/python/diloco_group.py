"""What tests of DiLoCo share: groups of workers, and a model beside them."""

import copy

import numpy as np
import torch
from stores import ADDRESS, StoreTest, new_namespace
from tensorkv.torch import DiLoCo


def module_of(*shapes, dtype=torch.float64, seed=0):
    random = np.random.default_rng(seed)
    return torch.nn.ParameterDict(
        {
            f"w{i}": torch.nn.Parameter(
                torch.from_numpy(random.normal(size=shape)).to(dtype)
            )
            for i, shape in enumerate(shapes)
        }
    )


def fragments_of(shapes):
    return [module_of(*each, seed=i) for i, each in enumerate(shapes)]


def values_of(fragments):
    return [[p.detach() for p in each.parameters()] for each in fragments]


def move(parameters, worker, step):
    """A step of the inner training: where it goes depends on where it is."""
    with torch.no_grad():
        for parameter in parameters:
            parameter *= 1 - 0.02 * (worker + 1)
            parameter += 0.01 * (step % 7) - 0.03 * worker


def tokens_of(worker, step):
    return 1 + (5 * worker + 3 * step) % 11


class Model:
    """What the server has of each fragment, by NumPy.

    Attributes:
      start, momentum: lists of arrays, of each fragment.
    """

    def __init__(self, first, workers, interval, delay=0, alpha=0.0):
        self.start = [[np.array(tensor) for tensor in f] for f in first]
        self.momentum = [[np.zeros_like(a) for a in f] for f in self.start]
        self._workers = workers
        self._interval = interval
        self._delay = delay
        self._alpha = alpha
        self.go_back()

    def go_back(self):
        """Has all workers go on from there, without what they have moved by."""
        self._local = [copy.deepcopy(self.start) for _ in self._workers]
        self._tokens = np.zeros((len(self._workers), len(self.start)))

    def train(self, rounds):
        for number in rounds:
            self._round(number, number % len(self.start))

    def _round(self, number, at):
        sent = [
            self._inner(w, worker, number, at)
            for w, worker in enumerate(self._workers)
        ]
        weights = [weight for weight, _ in sent]
        for i, (begin, m) in enumerate(zip(self.start[at], self.momentum[at])):
            mean = np.average([moves[i] for _, moves in sent], 0, weights)
            m[...] = 0.9 * m + mean
            begin -= 0.7 * (mean + 0.9 * m)
            for own in self._local:
                mixed = (1 - self._alpha) * begin + self._alpha * own[at][i]
                own[at][i][...] = mixed
        self._tokens[:, at] *= self._alpha

    def _inner(self, w, worker, number, at):
        """Trains for a round; the weight and the moves that are sent."""
        tokens, local = self._tokens[w], self._local[w]
        for step in range(self._interval):
            number_of_step = number * self._interval + step
            tensors = [torch.from_numpy(a) for f in local for a in f]
            move(tensors, worker, number_of_step)
            tokens += tokens_of(worker, number_of_step)
            if step == self._interval - self._delay - 1:
                pairs = zip(self.start[at], local[at])
                sent = tokens[at], [begin - end for begin, end in pairs]
                tokens[at] = 0
        return sent


class GroupTest(StoreTest):
    """Has workers on threads, whose clients are closed when the test ends."""

    def join(self, fragments, namespace, address=ADDRESS, **options):
        client = self.open_client(address, namespace=namespace, timeout=60)
        return DiLoCo(client, fragments, **{"sync_every": 4, **options})

    def join_many(self, count, make, **options):
        """A group that is complete, each with fragments of its own."""
        namespace = new_namespace()
        return [
            self.join(make(), namespace, num_workers=count, **options)
            for _ in range(count)
        ]

    def train(self, diloco, worker, rounds):
        """Trains until so many rounds are there."""
        parameters = [p for f in diloco._fragments for p in f.parameters]
        while diloco.round < rounds:
            step = diloco.round * diloco._interval + diloco._local_step
            move(parameters, worker, step)
            diloco.step(tokens_of(worker, step))

    def values(self, diloco):
        """What the server has of each fragment."""
        client = self.open_client(
            diloco._client.target, namespace=diloco._client.namespace
        )
        return client.pull(diloco._keys.all()[:-1])

    def check_values(self, diloco, expected):
        actual = iter(self.values(diloco))
        for fragment in expected.start:
            for array in fragment:
                np.testing.assert_allclose(next(actual), array, 1e-12, 1e-12)

    def assert_same(self, *group):
        for fragments in zip(*(each._fragments for each in group)):
            for parameters in zip(*(each.parameters for each in fragments)):
                for other in parameters[1:]:
                    self.assertTrue(torch.equal(parameters[0], other))
