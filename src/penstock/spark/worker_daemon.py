"""The process that Spark forks its Python workers from, on this machine: PySpark's, made ready.

1. What every worker needs is imported before the first is forked, once instead of once each.
2. A worker whose JVM has gone ends without a traceback about its broken pipe.
3. Spark kills the worker of a cancelled task. Here it is interrupted first, so that it closes the
   functions of the program, and killed if it still exists after `CLOSING_S`.
"""

from __future__ import annotations

import os
import signal
import time
import types
from typing import TYPE_CHECKING, Any, Final

import pyspark.worker
from pyspark import daemon

from penstock.runtime.level_task import EpochInterrupted
from penstock.spark.worker_tasks import close_functions

if TYPE_CHECKING:
    from collections.abc import Callable

CLOSING_S: Final = 5.0
"""How long a worker whose task was cancelled may close its functions."""
_LOOK_S: Final = 0.02


def interruptible(main: Callable[..., None]) -> Callable[..., None]:
    """Returns a worker's task that SIGTERM interrupts."""

    def interrupted(*_: object) -> None:
        # The end of the JVM must not interrupt what close() does, either.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        raise EpochInterrupted

    def run(*streams: Any) -> None:
        signal.signal(signal.SIGTERM, interrupted)
        main(*streams)

    return run


def at_rest(handle: Callable[..., None]) -> Callable[..., None]:
    """Returns what PySpark does with a task's exception, which no interruption joins."""

    def run(*arguments: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        handle(*arguments)

    return run


def closing(serve: Callable[..., int]) -> Callable[..., int]:
    """Returns a worker's loop that closes the functions before the worker ends."""

    def serve_and_close(*connection: Any) -> int:
        code = 1
        try:
            code = serve(*connection)
        except (ConnectionError, EpochInterrupted):
            # No task reads the answers of this worker any more.
            pass
        finally:
            if code:
                close_functions(CLOSING_S)
        return code

    return serve_and_close


def kill(process: int, number: int) -> None:
    """Sends a signal; SIGKILL follows SIGTERM where it was asked for."""
    if number == signal.SIGKILL:
        number = signal.SIGTERM
        if os.fork() == 0:
            _kill_later(process)
    os.kill(process, number)


def _kill_later(process: int) -> None:
    try:
        # The daemon may end meanwhile; its children get SIGHUP then.
        os.setpgid(0, 0)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.closerange(0, 3)
        ends_s = time.monotonic() + CLOSING_S
        while time.monotonic() < ends_s:
            os.kill(process, 0)
            time.sleep(_LOOK_S)
        os.kill(process, signal.SIGKILL)
    except OSError:
        # The worker has ended.
        pass
    finally:
        os._exit(0)


if __name__ == "__main__":
    worker: Any = pyspark.worker
    worker.handle_worker_exception = at_rest(worker.handle_worker_exception)
    worker.main = interruptible(worker.main)
    workers: Any = daemon
    workers.worker = closing(workers.worker)
    # Only for the daemon: `os` is the same module in a program's functions.
    workers.os = types.SimpleNamespace(**{**vars(os), "kill": kill})
    workers.manager()
