"""The methods of a KVStore as coroutines."""

from tensorkv.aio import Coroutines


class KVStoreCoroutines(Coroutines):
    """The methods of a KVStore; each call takes a thread."""
