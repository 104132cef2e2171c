"""What comes of asked-for snapshots: places for users, and the last checkpoint of a job."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final

from penstock.checkpoint.errors import CheckpointError

if TYPE_CHECKING:
    from penstock.checkpoint.coordination.checkpoints import CompletedCheckpoint
    from penstock.launch.checkpointing.service import CheckpointService
    from penstock.runtime.driver import JobDriver

_POLL_S: Final = 0.02


def take_last_checkpoint(service: CheckpointService, driver: JobDriver) -> None:
    """Takes a last checkpoint of a job whose input has ended, and commits its output.

    One that fails is followed by another, until too many have failed in a row.
    """
    result: Future[CompletedCheckpoint] | None = None
    while not driver.is_over():
        wish = service.wanted()
        if wish is not None:
            service.offer(driver, stopped=wish.stop)
            if wish.stop:
                service.wait_stopped()
                return
        if result is None:
            result = service.request_checkpoint()
        try:
            result.result(_POLL_S)
        except TimeoutError:
            continue
        except CheckpointError:
            result = None
            service.pause()
        else:
            return


def place_of(done: Future[CompletedCheckpoint]) -> Future[str]:
    """Returns a future of the place of a snapshot."""
    result: Future[str] = Future()
    chain(done, result, lambda checkpoint: checkpoint.location)
    return result


def chain(
    source: Future[CompletedCheckpoint],
    target: Future[Any],
    convert: Callable[[CompletedCheckpoint], Any],
) -> None:
    """Sets a future to what another one gives, converted; or to its error."""

    def finished(done: Future[CompletedCheckpoint]) -> None:
        error = done.exception()
        if error is None:
            target.set_result(convert(done.result()))
        else:
            target.set_exception(error)

    source.add_done_callback(finished)
