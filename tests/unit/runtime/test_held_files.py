"""State files that stay with executors: who uploads them, when they go, what late answers do."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from penstock.core.handles import FileHandle
from penstock.files.errors import StorageError
from penstock.runtime.records import Delivery, Errand, OperatorVersion, SubtaskVersion
from penstock.runtime.state_files import HeldFiles

if TYPE_CHECKING:
    from collections.abc import Callable

A, B = (0, 0), (0, 1)


def file(name: str) -> FileHandle:
    return FileHandle(name, 1, "0" * 64)


def version(*names: str) -> SubtaskVersion:
    handles = tuple(map(file, names))
    return SubtaskVersion(
        "-".join(names), {"uid": OperatorVersion((), handles, ((),) * len(handles))}
    )


def gone(files: HeldFiles) -> dict[tuple[int, int], set[str]]:
    return {key: set(errand.gone) for key, errand in files.errands().items() if errand.gone}


class Upload:
    """An upload of some files in a thread of its own, as a checkpoint does it."""

    def __init__(self, files: HeldFiles, *names: str) -> None:
        self.cancelled = threading.Event()
        self.done: bool | None = None
        self.error = ""
        self._work: Callable[[], bool] = lambda: files.upload(
            {f"s3://bucket/{name}": file(name) for name in names}, self.cancelled.is_set
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        while self._thread.is_alive() and not files.has_orders:
            self._thread.join(0.001)

    def _run(self) -> None:
        try:
            self.done = self._work()
        except StorageError as error:
            self.error = str(error)

    def end(self) -> None:
        self._thread.join(30)
        assert not self._thread.is_alive()


def test_those_who_hold_files_are_asked_until_they_answer() -> None:
    files = HeldFiles()
    files.released({}, {A: version("a"), B: version("b")})
    upload = Upload(files, "a", "b")
    orders = files.errands()
    assert {key: [order.file.name for order in each.orders] for key, each in orders.items()} == {
        A: ["a"],
        B: ["b"],
    }
    # An epoch that did not count, or a worker that died: the next plan says it again.
    assert files.errands() == orders
    (first,) = orders[A].orders
    assert first.url == "s3://bucket/a"
    files.settle([Delivery(first.number)])
    assert files.errands().keys() == {B}
    files.settle([Delivery(orders[B].orders[0].number)])
    upload.end()
    assert upload.done is True
    assert files.errands() == {}


def test_a_file_that_cannot_be_uploaded_fails_its_checkpoint_alone() -> None:
    files = HeldFiles()
    files.released({}, {A: version("a", "b")})
    upload = Upload(files, "a", "b")
    first, second = files.errands()[A].orders
    files.settle([Delivery(first.number, "the bucket is gone")])
    upload.end()
    assert upload.error == "the bucket is gone"
    # The late answer of what was ordered beside it is no news.
    files.settle([Delivery(second.number)])
    assert not files.has_orders
    again = Upload(files, "a")
    (third,) = files.errands()[A].orders
    assert third.number not in (first.number, second.number)
    files.settle([Delivery(first.number), Delivery(third.number)])
    again.end()
    assert again.done is True


def test_an_aborted_checkpoint_takes_its_orders_back() -> None:
    files = HeldFiles()
    files.released({}, {A: version("a")})
    upload = Upload(files, "a")
    (order,) = files.errands()[A].orders
    upload.cancelled.set()
    upload.end()
    assert upload.done is False
    assert files.errands() == {}
    files.settle([Delivery(order.number)])
    assert not files.has_orders


def test_an_attempt_that_failed_answers_nothing_any_more() -> None:
    files = HeldFiles()
    files.released({}, {A: version("a")})
    upload = Upload(files, "a")
    assert files.keep_only({A: version("k"), B: version("k", "l")}) == {"k", "l"}
    upload.end()
    assert "failed" in upload.error
    assert files.errands() == {}


def test_what_no_subtask_holds_is_an_error() -> None:
    files = HeldFiles()
    files.released({}, {A: version("a")})
    with pytest.raises(StorageError, match="no executor holds the state file 'x'"):
        files.upload({"s3://bucket/x": file("x")}, lambda: False)


def test_holders_are_told_once_what_is_gone() -> None:
    files = HeldFiles()
    files.released({}, {A: version("a", "c"), B: version("b", "c")})
    files.released({}, {A: version("a2"), B: version("b", "c")})
    # B still names what both had.
    assert gone(files) == {A: {"a"}}
    # The epoch did not count.
    assert gone(files) == {A: {"a"}}
    files.settle([])
    assert gone(files) == {}
    files.released({}, {A: version("a2"), B: version("b")})
    assert gone(files) == {A: {"c"}, B: {"c"}}


def test_pinned_files_stay_until_their_checkpoint_is_over() -> None:
    files = HeldFiles()
    files.released({}, {A: version("a")})
    pinned = files.pin([version("a")])
    files.released({}, {A: version("b")})
    assert gone(files) == {}
    upload = Upload(files, "a")
    (order,) = files.errands()[A].orders
    assert order.file.name == "a"
    files.settle([Delivery(order.number)])
    upload.end()
    files.unpin(pinned)
    assert files.errands() == {A: Errand((), ("a",))}


def test_what_is_said_to_be_gone_while_an_epoch_runs_is_said_in_the_next() -> None:
    files = HeldFiles()
    files.released({}, {A: version("a", "b")})
    pinned = files.pin([version("b")])
    files.released({}, {A: version("c")})
    assert gone(files) == {A: {"a"}}
    files.unpin(pinned)
    files.settle([])
    assert gone(files) == {A: {"b"}}
