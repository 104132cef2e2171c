"""What a worker does with checkpoint storage itself, where state files stay with their executor.

An order names a local file and its place in storage. It is part of each plan of the subtask that
holds the file until an answer has arrived, so nothing has to be remembered over the death of a
worker: the next one finds the order again, and the file in the executor's directory. Two workers
may write one file at the same time; its name holds its checksum, and the second finds it there.

Threads work beside the epochs: an epoch starts what is new and reports what is done.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.core.errors import PenstockError
from penstock.files.area import HomeArea
from penstock.files.contract import Content
from penstock.files.urls import Storages, split_url
from penstock.runtime.records import Delivery, Errand, Order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.handles import FileHandle
    from penstock.files.area import FileArea
    from penstock.runtime.records import (
        EpochPlan,
        JobProgram,
        SubtaskKey,
        SubtaskReport,
        SubtaskVersion,
    )

_THREADS: Final = 8


class Transfers:
    """The transfers of a worker process."""

    def __init__(self) -> None:
        self._threads: ThreadPoolExecutor | None = None
        self._storages: tuple[tuple[tuple[str, str], ...], Storages] | None = None
        self._under_way: dict[tuple[str, SubtaskKey], dict[int, Future[Delivery]]] = {}

    def attend(
        self, program: JobProgram, area: FileArea, key: SubtaskKey, errand: Errand | None
    ) -> list[Delivery]:
        """Starts what a plan orders, forgets what it no longer does; returns what is done."""
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
                under_way[order.number] = self._pool().submit(_carry_out, storages, area, order)
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


def _carry_out(storages: Storages, area: HomeArea, order: Order) -> Delivery:
    file = order.file
    path = Path(area.directory, file.name)
    try:
        if not order.url:
            return Delivery(order.number, data=area.read(file))
        directory, name = split_url(order.url)
        content = Content.of_file(path, file.size_bytes, file.sha256)
        storages.at(directory).put_named(name, content)
    except PenstockError as error:
        return Delivery(order.number, str(error))
    except Exception as error:
        what = f"{path.name} cannot be uploaded to {order.url}: {type(error).__name__}: {error}"
        return Delivery(order.number, what)
    return Delivery(order.number)
