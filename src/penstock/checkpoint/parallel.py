"""The same work for many files, in parallel if there are threads for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, Executor, wait
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def run_all(
    executor: Executor | None, work: Callable[[Item], Result], items: Iterable[Item]
) -> list[Result]:
    """Returns the results in the order of the items; raises the first error.

    What is under way then is waited for: the clean-up after the error must not race with it.
    """
    if executor is None:
        return [work(item) for item in items]
    futures = [executor.submit(work, item) for item in items]
    _, rest = wait(futures, return_when=FIRST_EXCEPTION)
    for future in rest:
        future.cancel()
    wait(rest)
    for future in futures:
        if not future.cancelled() and (error := future.exception()) is not None:
            raise error
    return [future.result() for future in futures]
