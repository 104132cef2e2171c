"""PyFlink's `common.completable_future`: an answer that may still be on its way."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from penstock.core.refused_names import names_of

__getattr__ = names_of(__name__)


class CompletableFuture:
    """Wraps a `concurrent.futures.Future`."""

    def __init__(self, future: Future[Any], convert: Callable[[Any], Any] | None = None) -> None:
        self._future = future
        self._convert = convert
        self._given_up = False

    @staticmethod
    def completed(value: Any) -> CompletableFuture:
        """Makes one that has its value already."""
        future: Future[Any] = Future()
        future.set_result(value)
        return CompletableFuture(future)

    def cancel(self) -> bool:
        """Gives the answer up, if it is not here yet; what was asked for goes on."""
        # The wrapped future stays as it is: others wait for it too, and the work behind it
        # still needs a place for its answer.
        self._given_up = self._given_up or not self._future.done()
        return self._given_up

    def cancelled(self) -> bool:
        return self._given_up or self._future.cancelled()

    def done(self) -> bool:
        return self._given_up or self._future.done()

    def result(self, timeout: float | None = None) -> Any:
        """Waits for the answer; raises what went wrong."""
        if self._given_up:
            raise CancelledError
        value = self._future.result(timeout)
        return value if self._convert is None else self._convert(value)

    def exception(self) -> BaseException | None:
        """Returns what went wrong; None if nothing did, or not yet."""
        if not self._future.done() or self.cancelled():
            return None
        return self._future.exception()

    def __repr__(self) -> str:
        state = "done" if self.done() else "pending"
        return f"CompletableFuture({state})"
