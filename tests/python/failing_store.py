"""Has one of the calls of a client fail, and nothing before it."""


class FailingStore:
    """The store of a client, until a call of it.

    At the call of number `call`, from 0 on, `fail` is called, before it is made
    or when it has ended; `when` is "before" or "after".
    """

    def __init__(self, store, when, call, fail):
        self._store = store
        self._when = when
        self._left = call
        self._fail = fail

    @property
    def has_failed(self):
        return self._left < 0

    def __getattr__(self, name):
        attribute = getattr(self._store, name)
        if not callable(attribute) or name.startswith("_"):
            return attribute

        def called(*args):
            left, self._left = self._left, self._left - 1
            if left == 0 and self._when == "before":
                self._fail()
            try:
                return attribute(*args)
            finally:
                if left == 0:
                    self._fail()

        return called
