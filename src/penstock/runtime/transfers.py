"""What a worker does with checkpoint storage itself, where state files stay with their executor.

An order names a local file and its place in storage. It is part of each plan of the subtask that
holds the file until an answer has arrived, so nothing has to be remembered over the death of a
worker: the next one finds the order again, and the file in the executor's directory. Two workers
may write one file at the same time; its name holds its checksum, and the second finds it there.

Threads work beside the epochs: an epoch starts what is new and reports what is done. What they
compute, which is checksums and copies, they take from the core that the records have, so uploads
are paced: `Pace`.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.files.area import FileArea, HomeArea
from penstock.files.contract import Content
from penstock.files.urls import Storages, split_url
from penstock.runtime.records import Delivery, Errand, Order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.core.handles import FileHandle
    from penstock.runtime.records import (
        EpochPlan,
        JobProgram,
        SubtaskKey,
        SubtaskReport,
        SubtaskVersion,
    )

_THREADS: Final = 8
_SHARE: Final = 0.15
"""What uploads beside records may take of a core; more than 100 MB/s of a worker fit into it."""
_LOOK_S: Final = 0.1
"""How often an upload that waits looks whether the records have come to their end."""
_PIECE_BYTES: Final = 4 << 20
"""Between two pieces a thread takes the interpreter from the records."""


def _beside_s() -> float:
    """Returns the processor time of all threads but the main one, which has the records."""
    main = threading.main_thread().ident
    if main is None or not hasattr(time, "pthread_getcpuclockid"):
        # macOS; there uploads are slower than they need to be.
        return time.process_time()
    return time.process_time() - time.clock_gettime(time.pthread_getcpuclockid(main))


class Pace:
    """Keeps the processor time of uploads at a share of one core.

    That is the time of all threads but the one of the records, while an upload is under way, since
    clients compute in threads of their own. Time that these wait for a network or a disk counts for
    nothing. Niceness would not do: a thread of low priority that gets the interpreter and no core
    holds up the records.

    Args:
        now_s: A clock.
        beside_s: What threads beside that of the records have computed so far.
        sleep: Waits.

    Attributes:
        share: That share.
    """

    def __init__(
        self,
        now_s: Callable[[], float] = time.monotonic,
        beside_s: Callable[[], float] = _beside_s,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.share = _SHARE
        self._now_s = now_s
        self._beside_s = beside_s
        self._sleep = sleep
        self._turn = threading.Lock()
        """Of those who wait one looks again and again; the others sleep."""
        self._lock = threading.Lock()
        self._under_way = 0
        self._counted_s = 0.0
        self._free_s = 0.0

    def begin(self) -> None:
        """Returns when what was computed before is within the share, or at once if all is ours."""
        with self._turn:
            while self.share < 1 and (left_s := self._free_s - self._now_s()) > 0:
                self._sleep(min(left_s, _LOOK_S))
        with self._lock:
            self._count()
            self._under_way += 1

    def end(self) -> None:
        """Counts what was computed; follows each `begin`."""
        with self._lock:
            self._count()
            self._under_way -= 1

    def _count(self) -> None:
        counted_s = self._beside_s()
        if self._under_way:
            begins_s = max(self._free_s, self._now_s())
            self._free_s = begins_s + (counted_s - self._counted_s) / self.share
        self._counted_s = counted_s


class Transfers:
    """The transfers of a worker process.

    Args:
        pace: Of its uploads.
    """

    def __init__(self, pace: Pace | None = None) -> None:
        self._pace = pace or Pace()
        self._threads: ThreadPoolExecutor | None = None
        self._storages: tuple[tuple[tuple[str, str], ...], Storages] | None = None
        self._under_way: dict[tuple[str, SubtaskKey], dict[int, Future[Delivery]]] = {}

    def attend(
        self,
        program: JobProgram,
        area: FileArea,
        key: SubtaskKey,
        errand: Errand | None,
        *,
        is_idle: bool = False,
    ) -> list[Delivery]:
        """Starts what a plan orders, forgets what it no longer does; returns what is done.

        Args:
            program: The job.
            area: Its files here.
            key: The subtask whose plan it is.
            errand: What the plan orders.
            is_idle: Whether the worker has no records now, and uploads may take what they can.
        """
        self._pace.share = 1.0 if is_idle else _SHARE
        under_way = self._under_way.get((program.job_id, key), {})
        if not isinstance(area, HomeArea) or (errand is None and not under_way):
            return []
        orders = () if errand is None else errand.orders
        wanted = {order.number for order in orders}
        for number in under_way.keys() - wanted:
            under_way.pop(number).cancel()
        storages = self._open(program)
        for order in orders:
            if order.number not in under_way:
                under_way[order.number] = self._pool().submit(
                    _carry_out, storages, area, order, self._pace
                )
        self._under_way[program.job_id, key] = under_way
        if errand is not None:
            area.remove(errand.gone)
        return [each.result() for each in under_way.values() if each.done()]

    def fetch(self, program: JobProgram, area: FileArea, version: SubtaskVersion | None) -> None:
        """Brings the files of a restored version here; what is here and whole stays.

        Raises:
            FilesError: A file is missing or damaged in storage, or cannot be read.
        """
        if version is None or not version.places or not isinstance(area, HomeArea):
            return
        files = {each.name: each for each in version.files if each.inline is None}
        storages = self._open(program)

        def fetch(handle: FileHandle) -> None:
            place = version.places.get(handle.name)
            if place is not None and not area.is_whole(handle):
                directory, name = split_url(place)
                target = area.path(handle)
                storages.at(directory).download(name, target, handle.size_bytes, handle.sha256)
                area.arrived(handle)

        _all(self._pool().submit(fetch, handle) for handle in files.values())

    def _open(self, program: JobProgram) -> Storages:
        options = program.state.storage
        if self._storages is None or self._storages[0] != options:
            self._storages = options, Storages(dict(options))
        return self._storages[1]

    def _pool(self) -> ThreadPoolExecutor:
        if self._threads is None:
            self._threads = ThreadPoolExecutor(_THREADS, "penstock-transfer")
        return self._threads


TRANSFERS: Final = Transfers()
"""Of this process."""


def keep_house(program: JobProgram, area: FileArea, plan: EpochPlan, report: SubtaskReport) -> None:
    """Does what a plan says about the files that a subtask keeps, at the end of its epoch."""
    if not isinstance(area, HomeArea):
        return
    assert report.version is not None
    named = {handle.name for handle in report.version.files}
    # A delta that was folded at once, for one.
    area.remove(name for name in area.written if name not in named)
    area.written.clear()
    key = report.stage_id, report.subtask
    report.deliveries = TRANSFERS.attend(program, area, key, plan.subtasks[key].errand)


def _all(futures: Iterable[Future[None]]) -> None:
    started = list(futures)
    for future in started:
        future.result()


def _paced(path: Path, pace: Pace) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        while piece := file.read(_PIECE_BYTES):
            # Until the next one is asked for, it is checked and written.
            yield piece
            pace.end()
            pace.begin()


def _carry_out(storages: Storages, area: HomeArea, order: Order, pace: Pace) -> Delivery:
    file = order.file
    path = Path(area.directory, file.name)
    pace.begin()
    try:
        if not order.url:
            return Delivery(order.number, data=area.read(file))
        directory, name = split_url(order.url)
        content = Content(file.size_bytes, file.sha256, lambda: _paced(path, pace))
        storages.at(directory).put_named(name, content)
    except PenstockError as error:
        return Delivery(order.number, str(error))
    except Exception as error:
        what = f"{path.name} cannot be uploaded to {order.url}: {type(error).__name__}: {error}"
        return Delivery(order.number, what)
    finally:
        pace.end()
    return Delivery(order.number)
