"""Secure aggregation by sums of a server, with Flower's utilities."""

import importlib.util
import os
import sys
import unittest

import numpy as np

sys.path.insert(0, os.path.dirname(__file__))
from stores import StoreTest, new_namespace

HAS_FLOWER = importlib.util.find_spec("flwr") is not None
if HAS_FLOWER:
    from flwr.common.secure_aggregation.crypto import shamir
    from flwr.common.secure_aggregation.crypto import symmetric_encryption
    from flwr.common.secure_aggregation.quantization import (
        dequantize,
        quantize,
    )
    from flwr.common.secure_aggregation.secaggplus_utils import (
        pseudo_rand_gen,
        share_keys_plaintext_concat,
        share_keys_plaintext_separate,
    )
    from flwr.supercore.primitives.asymmetric import (
        bytes_to_private_key,
        bytes_to_public_key,
        generate_key_pairs,
        private_key_to_bytes,
        public_key_to_bytes,
    )

NUM_CLIENTS, THRESHOLD = 9, 3
SHAPE = (4, 50)
CLIP, LEVELS = 3.0, 1 << 20
MAX_WEIGHT = 40
# What unsigned integers of 32 bits wrap around at.
MODULUS = 1 << 32


def as_array(data):
    return np.frombuffer(data, "uint8")


def shared_key(private, public):
    return symmetric_encryption.generate_shared_key(
        bytes_to_private_key(private), bytes_to_public_key(public)
    )


def mask(seed):
    """Of the values, and of the weight."""
    values = pseudo_rand_gen(seed, MODULUS, [(np.prod(SHAPE) + 1,)])
    return values[0].astype("uint32")


def pairwise_mask(own, private, other, public):
    """What a client adds for another, and that one takes away."""
    values = mask(shared_key(private, public))
    return values if own > other else -values


class Member:
    """A client's half: the server sees public keys, what is encrypted, sums.

    Its keys, its seed and shares of them are of one round.
    """

    def __init__(self, number, client, round_number):
        self.number = number
        self._client = client
        self._round = f"round-{round_number}"
        self._private, self._shares = {}, {}
        for use in ("mask", "share"):
            private, public = generate_key_pairs()
            self._private[use] = private_key_to_bytes(private)
            data = public_key_to_bytes(public)
            self._say(f"{use}-key/{number}", data)

    def _say(self, key, data):
        self._client.init(f"{self._round}/{key}", as_array(data))

    def _hear(self, key):
        return self._client.pull(f"{self._round}/{key}", wait=True).tobytes()

    def _public(self, use, number):
        return self._hear(f"{use}-key/{number}")

    def _channel(self, other):
        return shared_key(self._private["share"], self._public("share", other))

    def share(self):
        """Gives each other one a share of what its masks are made of."""
        self._seed = os.urandom(32)
        pairs = zip(
            shamir.create_shares(self._seed, THRESHOLD, NUM_CLIENTS),
            shamir.create_shares(
                self._private["mask"], THRESHOLD, NUM_CLIENTS
            ),
        )
        for other, (of_seed, of_key) in enumerate(pairs):
            plain = share_keys_plaintext_concat(
                self.number, other, of_seed, of_key
            )
            encrypted = symmetric_encryption.encrypt(
                self._channel(other), plain
            )
            self._say(f"share/{self.number}/{other}", encrypted)

    def contribute(self, values, weight, worker):
        """Pushes its masked values and weight; returns them without masks."""
        ratio = round(weight / MAX_WEIGHT * LEVELS)
        # In the range of the levels, whatever the weight.
        (quantized,) = quantize([values * (ratio / LEVELS)], CLIP, LEVELS)
        plain = np.append(quantized.ravel(), ratio).astype("uint32")
        masked = plain + mask(self._seed)
        for other in range(NUM_CLIENTS):
            if other == self.number:
                continue
            public = self._public("mask", other)
            masked += pairwise_mask(
                self.number, self._private["mask"], other, public
            )
        came = np.zeros(NUM_CLIENTS, "uint32")
        came[self.number] = 1
        # In one call, so that who is in one sum is in the other.
        worker.push(["sum", "came"], [masked, came], step=1)
        return plain

    def reveal(self, came):
        """Of who came the seed's share, of the others that of the key."""
        if np.count_nonzero(came) < THRESHOLD:
            raise RuntimeError("so few would be known by their sum")
        for other in range(NUM_CLIENTS):
            plain = symmetric_encryption.decrypt(
                self._channel(other),
                self._hear(f"share/{other}/{self.number}"),
            )
            shares = share_keys_plaintext_separate(plain)[2:]
            self._say(
                f"revealed/{other}/{self.number}",
                shares[0 if came[other] else 1],
            )


def unmask(total, came, hear):
    """Takes out of a sum the masks of who came, and those for who did not."""
    here = np.flatnonzero(came)
    for number in range(NUM_CLIENTS):
        shares = [hear(f"revealed/{number}/{each}") for each in here]
        secret = shamir.combine_shares(shares[:THRESHOLD])
        if came[number]:
            total = total - mask(secret)
            continue
        for other in here:
            # The other has put it in with the opposite sign.
            public = hear(f"mask-key/{other}")
            total = total + pairwise_mask(number, secret, other, public)
    return total


def mean_of(plain, num_came):
    """The weighted mean, from the sums without masks."""
    *values, ratios = plain
    (scaled,) = dequantize([np.array(values)], CLIP, LEVELS)
    # Each client has added CLIP, and so has dequantize taken away one.
    return (scaled - (num_came - 1) * CLIP) * (LEVELS / ratios)


@unittest.skipUnless(HAS_FLOWER, "there is no flwr")
class SecureAggregationTest(StoreTest):

    def make_group(self, order):
        """A board, and workers of a namespace of sums."""
        board, group = new_namespace(), new_namespace()
        client = self.open_client(namespace=board)
        client.create_namespace(board, mode="async")
        client.create_namespace(
            group,
            mode="sync",
            num_workers=NUM_CLIENTS,
            on_worker_loss="continue",
            sum_order=order,
        )
        sums = self.open_client(namespace=group)
        sums.init(
            ["sum", "came"],
            [
                np.zeros(np.prod(SHAPE) + 1, "uint32"),
                np.zeros(NUM_CLIENTS, "uint32"),
            ],
        )
        workers = []
        for i in range(NUM_CLIENTS):
            worker = self.open_client(namespace=group, timeout=60)
            worker.join(f"client-{i}", rank=i)
            workers.append(worker)
        return board, sums, workers

    def test_masks_cancel_in_the_sum_though_clients_drop_out(self):
        for order in ("rank", "arrival"):
            with self.subTest(order):
                self.check_round(*self.make_group(order))

    def check_round(self, board, sums, workers):
        members = [
            Member(i, self.open_client(namespace=board), round_number=1)
            for i in range(NUM_CLIENTS)
        ]
        self.together(members, Member.share)
        random = np.random.default_rng(0)
        values = random.normal(size=(NUM_CLIENTS, *SHAPE))
        weights = random.integers(1, MAX_WEIGHT, NUM_CLIENTS)
        plain = {}

        def contribute(member):
            i = member.number
            plain[i] = member.contribute(values[i], weights[i], workers[i])

        # Of those who have given shares away, one leaves, one is lost, and one
        # is lost once it has contributed.
        contribute(members[7])
        for number in (1, 4, 7):
            workers[number]._store.close(True)
        staying = [m for m in members if m.number not in (1, 4, 7)]
        self.together(staying, contribute)
        total, came = sums.pull(["sum", "came"], min_version=2)

        there = np.array([i in plain for i in range(NUM_CLIENTS)])
        self.assert_array(came, there.astype("uint32"))
        for each in members:
            if each.number in plain:
                each.reveal(came)
        hear = members[0]._hear
        unmasked = unmask(total, came, hear)
        self.assert_array(unmasked, sum(plain.values()))
        self.assertFalse(np.array_equal(unmasked, total))
        np.testing.assert_allclose(
            mean_of(unmasked, came.sum()),
            np.average(values[there], 0, weights[there]).ravel(),
            atol=1e-4,
        )

    def test_nobody_is_revealed_by_a_sum_of_few(self):
        board, _, _ = self.make_group("rank")
        member = Member(0, self.open_client(namespace=board), round_number=1)
        with self.assertRaisesRegex(RuntimeError, "so few"):
            member.reveal(np.eye(NUM_CLIENTS, dtype="uint32")[0])


if __name__ == "__main__":
    unittest.main()
