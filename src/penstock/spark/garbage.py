"""When a worker's garbage collector runs.

State is many objects and few cycles. Left alone, the collector walks over all of them again and
again; even one collection of the objects of a task took 9 % of the time of a windowed count. So it
rests during tasks, what they leave is set aside, and cycles of users' objects are looked for once
in a while.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_TASKS_BETWEEN_COLLECTIONS: Final = 200

_tasks = 0


@contextmanager
def collector_at_rest() -> Iterator[None]:
    """Keeps the collector from running inside the block, which is one task."""
    global _tasks  # noqa: PLW0603 - there is one collector in a process
    gc.disable()
    try:
        yield
    finally:
        _tasks += 1
        if _tasks >= _TASKS_BETWEEN_COLLECTIONS:
            _tasks = 0
            gc.unfreeze()
            gc.collect()
        gc.freeze()
        gc.enable()
