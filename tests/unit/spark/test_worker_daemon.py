"""What a worker does when the JVM that it answers has gone."""

from __future__ import annotations

import socket

import pytest

from penstock.spark.worker_daemon import closing


def answer(connection: socket.socket, _authenticated: bool) -> int:
    connection.sendall(b"counted")
    return 0


def test_a_worker_whose_jvm_has_gone_ends_without_an_error() -> None:
    jvm, worker = socket.socketpair()
    with worker:
        assert closing(answer)(worker, True) == 0
        assert jvm.recv(7) == b"counted"
        jvm.close()
        assert closing(answer)(worker, True) == 1


def test_other_errors_of_a_worker_are_told() -> None:
    def fail(*_: object) -> int:
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space"):
        closing(fail)()
