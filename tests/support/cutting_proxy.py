"""A TCP proxy whose connections a test cuts, as a network does that fails."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class CuttingProxy:
    """
    Listens on a free port of loopback, and forwards to another one.

    Args:
        port: Where the server listens.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self.cut_count = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            server = socket.create_connection(("127.0.0.1", self._server_port))
            with self._lock:
                self._sockets += (client, server)
            for source, target in ((client, server), (server, client)):
                threading.Thread(target=self._forward, args=(source, target), daemon=True).start()

    def _forward(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        """Cut all connections; new ones can be made at once."""
        with self._lock:
            cut, self._sockets = self._sockets, []
        self.cut_count += len(cut)
        for one in cut:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()
        self.cut()
