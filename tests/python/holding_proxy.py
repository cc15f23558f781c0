"""A wire on loopback that stops in the middle of what goes over it."""

import socket
import threading


class HoldingProxy:
    """Forwards connections to a server until it holds them.

    When so many bytes of clients have passed, nothing passes any more until
    `release`, and `held` is set. What has come is not lost.
    """

    def __init__(self, server, num_bytes):
        host, port = server.rsplit(":", 1)
        self._server = host, int(port)
        self._bytes_left = num_bytes
        self._passing = threading.Event()
        self._passing.set()
        self._lock = threading.Lock()
        self._sockets = []
        self.held = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "%s:%d" % self._listener.getsockname()
        self._run(self._accept)

    def hold_after(self, num_bytes):
        """Holds them when clients have sent so many more."""
        with self._lock:
            self._bytes_left = num_bytes

    def release(self):
        self._passing.set()

    def close(self):
        self.release()
        with self._lock:
            for each in [self._listener, *self._sockets]:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # It has ended by itself.
                each.close()

    @staticmethod
    def _run(function, *arguments):
        threading.Thread(target=function, args=arguments, daemon=True).start()

    def _accept(self):
        while True:
            try:
                client = self._listener.accept()[0]
            except OSError:
                return  # The proxy is closed.
            server = socket.create_connection(self._server)
            with self._lock:
                self._sockets += [client, server]
            self._run(self._forward, client, server, self._count)
            self._run(self._forward, server, client, lambda _: None)

    def _forward(self, source, target, count):
        try:
            while data := source.recv(1 << 16):
                self._passing.wait()
                target.sendall(data)
                count(len(data))
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # One end is gone, and so is the other.

    def _count(self, num_bytes):
        with self._lock:
            self._bytes_left -= num_bytes
            if self._bytes_left > 0 or self.held.is_set():
                return
            self._passing.clear()
            self.held.set()
