"""Jobs that are rescaled while they run: counted once, and as wide as asked for from then on."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest
from recovery_kit import Faults, environment, same
from restore_kit import Numbers, Remember, Tap, Visible, build, cancel, counts, run_to, wait_for

from penstock.checkpoint.coordination.checkpoints import TriggerRequest
from penstock.checkpoint.files import CheckpointFiles
from penstock.common import JobStatus, Time, WatermarkStrategy
from penstock.core.errors import PenstockError
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.files.errors import FilesError
from penstock.job.start import set_launcher, start_job
from penstock.snapshots import SavepointReader

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Faults.hit.clear()
    Visible.rows.clear()
    Tap.limit = 0


def widths(client: Any) -> set[int]:
    return {stage.parallelism for stage in client._job.facts().graph.stages}


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_job_is_rescaled_again_and_again(tmp_path: Path, backend: str) -> None:
    client = build(tmp_path, 2, {"state.backend.type": backend}).execute_async()
    end = 0
    for parallelism in (3, 5, 1, 4, 2):
        run_to(client, end := end + 100)
        Tap.limit = end = end + 50
        number = client.rescale(parallelism).result(200)
        assert widths(client) == {parallelism}
        assert number in [each.checkpoint_id for each in client.checkpoints()]
    run_to(client, end)
    same(Visible.all(), counts(end))
    # A rescale is no failure.
    assert client._job.restarts == 0
    assert client._job.facts().failures == ()
    cancel(client)


class Thirds(Numbers):
    """The same in three splits."""

    def splits(self) -> Iterable[str]:
        return ["0", "1", "2"]

    def latest_offset(self, split: str) -> int:
        return (Tap.limit + 2 - int(split)) // 3

    def read(self, split: str, start: int, end: int) -> Iterable[Any]:
        return [3 * offset + int(split) for offset in range(start, end)]


@pytest.mark.parametrize("widths", [(2, 1, 2), (2, 2, 2), (1, 3, 2)])
def test_event_time_goes_on_with_the_splits_of_each_subtask(
    tmp_path: Path, widths: tuple[int, ...]
) -> None:
    """A subtask that waited for the watermark of a split that another reads would fire nothing."""
    options: dict[str, str] = {}
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(
        lambda value, _: value
    )
    for attempt, parallelism in enumerate(widths, 1):
        env = environment(tmp_path, parallelism, options)
        numbers = env.from_source(Thirds(), strategy, "numbers").uid("numbers")
        windows = numbers.key_by(lambda value: 0).window(
            TumblingEventTimeWindows.of(Time.milliseconds(10))
        )
        tens = windows.reduce(max).uid("tens").map(lambda newest: (newest,))
        tens.add_sink(Visible("out")).uid("out")
        client = env.execute_async()
        Tap.limit = 100 * attempt
        complete = [(newest,) for newest in range(9, Tap.limit - 10, 10)]
        wait_for(lambda: len(Visible.all()) >= len(complete), "windows")  # noqa: B023
        same(Visible.all(), complete)
        options = {"execution.state-recovery.path": client.stop_with_savepoint(False).result(200)}


def test_the_list_state_of_all_subtasks_is_dealt_out(tmp_path: Path) -> None:
    client = build(tmp_path, 3).execute_async()
    run_to(client, 100)
    client.rescale(2).result(200)
    run_to(client, 130)
    path = client.stop_with_savepoint(False).result(200)
    with SavepointReader.read(path, unpickle=True) as opened:
        values = opened.read_list_state("remember", "values")
    assert sorted(values) == list(range(130))


def test_a_failure_later_keeps_the_new_parallelism(tmp_path: Path) -> None:
    def check(value: int) -> int:
        if value in (120, 170):
            Faults.once(str(value))
        return value

    client = build(tmp_path, 2, change=lambda s: s.map(check).uid("check")).execute_async()
    run_to(client, 100)
    client.rescale(3).result(200)
    run_to(client, 200)
    assert widths(client) == {3}
    assert client._job.restarts == 2
    same(Visible.all(), counts(200))
    cancel(client)


def test_a_later_process_of_the_job_has_the_new_parallelism(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoints say so; the process dies without another word."""
    epochs = iter((1, 2))
    monkeypatch.setattr("penstock.job.start._launchers", [])
    set_launcher(lambda *rest: start_job(*rest, job_id="ab" * 16, leader_epoch=next(epochs)))
    client = build(tmp_path, 2).execute_async()
    run_to(client, 100)
    client.rescale(3)
    wait_for(lambda: widths(client) == {3}, "the new attempt")
    # As if it had died: its checkpoints stay, and nothing tells how it ended.
    monkeypatch.setattr(CheckpointFiles, "close", lambda files: None)
    client._job._service._thread = type("Dead", (), {"is_alive": lambda _: False})()
    cancel(client)
    again = build(tmp_path, 2).execute_async()
    run_to(again, 150)
    assert widths(again) == {3}
    same(Visible.all(), counts(150))
    cancel(again)


def test_a_savepoint_started_by_hand_has_the_parallelism_of_its_program(tmp_path: Path) -> None:
    client = build(tmp_path, 2).execute_async()
    run_to(client, 100)
    client.rescale(3).result(200)
    path = client.stop_with_savepoint(False).result(200)
    again = build(tmp_path, 4, {"execution.state-recovery.path": path}).execute_async()
    run_to(again, 150)
    assert widths(again) == {4}
    same(Visible.all(), counts(150))
    cancel(again)


def test_vertices_can_be_named(tmp_path: Path) -> None:
    """So are those with a parallelism of their own; what is chained moves together."""

    def narrow(stream: Any) -> Any:
        return stream.set_parallelism(1)

    client = build(tmp_path, 2, change=narrow).execute_async()
    run_to(client, 100)
    client.rescale(3).result(200)
    stages = {stage.operators[0].uid: stage for stage in client._job.graph.stages}
    shown = {uid: stage.parallelism for uid, stage in stages.items()}
    assert shown == {"numbers": 3, "remember": 1, "count": 3}
    client._job.rescale({stages["remember"].vertex_id: 2}).result(200)
    shown = {each.operators[0].uid: each.parallelism for each in client._job.graph.stages}
    assert shown == {"numbers": 3, "remember": 2, "count": 3}
    run_to(client, 150)
    same(Visible.all(), counts(150))
    cancel(client)


def test_what_is_refused(tmp_path: Path) -> None:
    """The job runs on as it was."""
    client = build(tmp_path, 2, max_parallelism=8).execute_async()
    run_to(client, 50)
    with pytest.raises(PenstockError, match="is 9, more than its max parallelism 8"):
        client.rescale(9).result(200)
    with pytest.raises(PenstockError, match="has no vertex cafe"):
        client._job.rescale({"cafe": 2}).result(200)
    run_to(client, 100)
    assert widths(client) == {2}
    client.rescale(8).result(200)
    run_to(client, 150)
    cancel(client)
    same(Visible.all(), counts(150))
    with pytest.raises(PenstockError, match="CANCELED"):
        client.rescale(2)


def test_without_checkpoints_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    options = {"execution.checkpointing.interval": ""}
    client = build(tmp_path, options=options).execute_async()
    run_to(client, 50)
    with pytest.raises(PenstockError, match=r"execution\.checkpointing\.interval"):
        client.rescale(3)
    cancel(client)


def test_a_program_of_fixed_parallelisms_says_so(tmp_path: Path) -> None:
    env = environment(tmp_path, 2)
    env.add_source(Numbers()).set_parallelism(2).map(Remember()).set_parallelism(2).map(
        lambda value: (value,)
    ).set_parallelism(2).add_sink(Visible("out")).set_parallelism(1)
    client = env.execute_async()
    with pytest.raises(PenstockError, match="set_parallelism"):
        client.rescale(3)
    cancel(client)


def test_a_checkpoint_that_fails_leaves_the_job_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.tolerable-failed-checkpoints": "3",
    }
    client = build(tmp_path, 2, options).execute_async()
    wait_for(lambda: client.last_epoch > 0, "an epoch")

    def full(*_: Any) -> None:
        raise FilesError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFiles, "write_metadata", full)
        with pytest.raises(PenstockError, match="the disk is full"):
            client.rescale(3).result(200)
    assert widths(client) == {2}
    assert client.get_job_status().result() is JobStatus.RUNNING
    client.rescale(3).result(200)
    assert widths(client) == {3}
    Tap.limit = 100
    wait_for(lambda: client._job.records_read >= 100, "100 records")
    client.stop_with_savepoint(False).result(200)
    same(Visible.all(), counts(100))


def test_another_checkpoint_of_the_same_epoch_does_not_want_what_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later process, which continues from it, has the parallelism that the job had."""
    epochs = iter((1, 2))
    monkeypatch.setattr("penstock.job.start._launchers", [])
    set_launcher(lambda *rest: start_job(*rest, job_id="ab" * 16, leader_epoch=next(epochs)))
    options = {
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.tolerable-failed-checkpoints": "3",
    }
    client = build(tmp_path, 2, options).execute_async()
    wait_for(lambda: client.last_epoch > 0, "an epoch")
    service = client._job._service
    request, write = service.request, CheckpointFiles.write_metadata
    others: list[Any] = []
    written: list[int] = []

    def asked_before(wanted: TriggerRequest) -> Any:
        others.append(request(TriggerRequest()))
        return request(wanted)

    def first_only(files: Any, wish: Any) -> Any:
        if written:
            raise FilesError("the disk is full")
        written.append(wish.checkpoint.checkpoint_id)
        return write(files, wish)

    Tap.limit = 100
    wait_for(lambda: client._job.records_read >= 100, "100 records")
    with monkeypatch.context() as patch:
        patch.setattr(service, "request", asked_before)
        patch.setattr(CheckpointFiles, "write_metadata", first_only)
        with pytest.raises(PenstockError, match="the disk is full"):
            client.rescale(3).result(200)
    assert [each.result(200).checkpoint_id for each in others] == written
    # As if it had died: its checkpoint stays, and nothing tells how it ended.
    monkeypatch.setattr(CheckpointFiles, "close", lambda files: None)
    service._thread = type("Dead", (), {"is_alive": lambda _: False})()
    cancel(client)
    again = build(tmp_path, 2).execute_async()
    run_to(again, 150)
    assert widths(again) == {2}
    same(Visible.all(), counts(150))
    cancel(again)


def test_one_rescale_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = build(tmp_path, 2).execute_async()
    run_to(client, 50)
    asked = []
    request = client._job._service.request

    @functools.wraps(request)
    def asked_meanwhile(wanted: TriggerRequest) -> Any:
        with pytest.raises(PenstockError, match="is being rescaled"):
            client.rescale(4)
        asked.append(1)
        return request(wanted)

    monkeypatch.setattr(client._job._service, "request", asked_meanwhile)
    client.rescale(3).result(200)
    assert asked == [1]
    cancel(client)
