"""Secure aggregation by a server's sums, with Flower's utilities for clients."""

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

NUM_CLIENTS, THRESHOLD = 6, 3
SHAPE = (4, 50)
CLIP, LEVELS = 3.0, 1 << 20
# What unsigned integers of 32 bits wrap around at.
MODULUS = 1 << 32


def as_array(data):
    return np.frombuffer(data, "uint8")


def shared_key(private, public):
    return symmetric_encryption.generate_shared_key(
        bytes_to_private_key(private), bytes_to_public_key(public)
    )


def mask(seed):
    (values,) = pseudo_rand_gen(seed, MODULUS, [SHAPE])
    return values.astype("uint32")


def pairwise_mask(own, private, other, public):
    """What a client adds for another, and that one takes away."""
    values = mask(shared_key(private, public))
    return values if own > other else -values


class Member:
    """A client's half: the server sees public keys, what is encrypted, sums."""

    def __init__(self, number, client):
        self.number = number
        self._client = client
        self._private, self._shares = {}, {}
        for use in ("mask", "share"):
            private, public = generate_key_pairs()
            self._private[use] = private_key_to_bytes(private)
            data = public_key_to_bytes(public)
            client.init(f"{use}-key/{number}", as_array(data))

    def _public(self, use, number):
        return self._client.pull(f"{use}-key/{number}", wait=True).tobytes()

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
            self._client.init(
                f"share/{self.number}/{other}", as_array(encrypted)
            )

    def contribute(self, values, worker):
        """Pushes its masked values; what they are without."""
        (quantized,) = quantize([values], CLIP, LEVELS)
        masked = quantized.astype("uint32") + mask(self._seed)
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
        return quantized

    def reveal(self, came):
        """Of who came the seed's share, of the others that of the key."""
        for other in range(NUM_CLIENTS):
            encrypted = self._client.pull(f"share/{other}/{self.number}")
            plain = symmetric_encryption.decrypt(
                self._channel(other), encrypted.tobytes()
            )
            shares = share_keys_plaintext_separate(plain)[2:]
            self._client.init(
                f"revealed/{other}/{self.number}",
                as_array(shares[0 if came[other] else 1]),
            )


def unmask(total, came, client):
    """Takes out of a sum the masks of who came, and those for who did not."""
    here = np.flatnonzero(came)
    for number in range(NUM_CLIENTS):
        shares = [client.pull(f"revealed/{number}/{each}") for each in here]
        secret = shamir.combine_shares(
            [each.tobytes() for each in shares[:THRESHOLD]]
        )
        if came[number]:
            total = total - mask(secret)
            continue
        for other in here:
            public = client.pull(f"mask-key/{other}").tobytes()
            # The other has put it in with the opposite sign.
            total = total + pairwise_mask(number, secret, other, public)
    return total


@unittest.skipUnless(HAS_FLOWER, "there is no flwr")
class SecureAggregationTest(StoreTest):

    def test_masks_cancel_in_the_sum_though_clients_drop_out(self):
        board, group = new_namespace(), new_namespace()
        client = self.open_client(namespace=board)
        client.create_namespace(board, mode="async")
        client.create_namespace(
            group,
            mode="sync",
            num_workers=NUM_CLIENTS,
            on_worker_loss="continue",
            sum_order="arrival",
        )
        sums = self.open_client(namespace=group)
        sums.init(
            ["sum", "came"],
            [np.zeros(SHAPE, "uint32"), np.zeros(NUM_CLIENTS, "uint32")],
        )
        members = [
            Member(i, self.open_client(namespace=board))
            for i in range(NUM_CLIENTS)
        ]
        workers = []
        for i in range(NUM_CLIENTS):
            worker = self.open_client(namespace=group, timeout=60)
            worker.join(f"client-{i}", rank=i)
            workers.append(worker)
        self.together(members, Member.share)
        random = np.random.default_rng(0)
        values = random.normal(size=(NUM_CLIENTS, *SHAPE))
        # These have given shares away, and go without a word.
        dropped = (1, 4)
        for number in dropped:
            workers[number]._store.close(True)
        staying = [each for each in members if each.number not in dropped]

        quantized = self.together(
            staying,
            lambda each: each.contribute(
                values[each.number], workers[each.number]
            ),
        )
        total, came = sums.pull(["sum", "came"], min_version=2)

        self.assert_array(
            came, np.isin(range(NUM_CLIENTS), dropped, invert=True).astype("u4")
        )
        for each in staying:
            each.reveal(came)
        plain = unmask(total, came, client)
        self.assert_array(plain, sum(quantized).astype("uint32"))
        self.assertFalse(np.array_equal(plain, total))
        (mean,) = dequantize([plain / came.sum()], CLIP, LEVELS)
        expected = np.clip(values[came == 1], -CLIP, CLIP).mean(0)
        np.testing.assert_allclose(mean, expected, atol=2 * CLIP / LEVELS)


if __name__ == "__main__":
    unittest.main()
