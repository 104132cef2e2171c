"""The sweep: what it takes, and above all what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from checkpoint_samples import JOB, sha256
from commit_driver import LAYOUT, LIVE, Driver, sweep
from hypothesis import given, settings, strategies as st

from penstock.checkpoint.errors import CheckpointError
from penstock.checkpoint.orphans import find_orphans, referenced_keys
from penstock.checkpoint.paths import layout_of
from penstock.files.contract import Content, Entry
from penstock.files.memory import MemoryStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

    from penstock.checkpoint.snapshot_load import LoadedSnapshot

HASH = sha256(b"x")
DAY = 24 * 60 * 60 * 1000


def found(
    *keys: str, age_ms: int = 2 * DAY, referenced: frozenset[str] = frozenset()
) -> dict[str, bool]:
    """Whether each orphan among `keys` may be deleted, with checkpoint 9 under way."""
    now_ms = 10 * DAY
    entries = [Entry(f"{JOB}/{key}", 7, now_ms - age_ms, "") for key in keys]
    orphans = find_orphans(
        entries,
        LAYOUT,
        {f"{JOB}/{key}" for key in referenced},
        current_id=9,
        now_ms=now_ms,
        grace_ms=DAY,
    )
    return {orphan.key.removeprefix(f"{JOB}/"): orphan.is_deletable for orphan in orphans}


def test_what_is_an_orphan() -> None:
    assert found(
        f"shared/{HASH}-8-w",
        f"shared/{HASH}-9-w",
        f"shared/{HASH}-10-w",
        "shared/.tmp-12-3",
        f"chk-8/{HASH}-8-w",
        "chk-8/_metadata",
        "chk-8/.tmp-12-4",
        "chk-9/_metadata",
        f"chk-10/{HASH}-10-w",
    ) == {
        f"shared/{HASH}-8-w": True,
        f"shared/{HASH}-9-w": False,
        f"shared/{HASH}-10-w": False,
        "shared/.tmp-12-3": True,
        f"chk-8/{HASH}-8-w": True,
        "chk-8/_metadata": True,
        "chk-8/.tmp-12-4": True,
        "chk-9/_metadata": False,
        f"chk-10/{HASH}-10-w": False,
    }


def test_what_is_never_judged() -> None:
    assert (
        found(
            "pointer/0000000000000000001",
            "counter/current",
            f"taskowned/{HASH}-1-w",
            "taskowned/anything",
            "shared/README",
            "shared/000012.sst",
            f"shared/deeper/{HASH}-1-w",
            "chk-8/notes.txt",
            "chk-08/_metadata",
            "chk-x/_metadata",
            "deeper/chk-8/_metadata",
            "_metadata",
            "savepoint-40dcc6-0123456789ab/_metadata",
        )
        == {}
    )


def test_young_and_named_files_stay() -> None:
    key = f"shared/{HASH}-8-w"
    assert found(key, age_ms=DAY) == {key: False}
    assert found(key, age_ms=DAY + 1) == {key: True}
    # A clock that went back makes files look as if they came from the future.
    assert found(key, age_ms=-5 * DAY) == {key: False}
    assert found(key, referenced=frozenset({key})) == {}


def job() -> tuple[MemoryStorage, Driver]:
    storage = MemoryStorage()
    driver = Driver(storage)
    driver.start()
    for number, names in enumerate(LIVE, start=1):
        driver.checkpoint(names, number)
    return storage, driver


ORPHANS = [f"chk-2/{HASH}-2-w", "chk-2/_metadata", f"shared/{HASH}-2-w"]


def with_orphans() -> tuple[MemoryStorage, Driver]:
    storage, driver = job()
    for key in ORPHANS:
        storage.put_if_absent(f"{JOB}/{key}", Content.of_bytes(b"old"))
    return storage, driver


def test_sweep_of_a_healthy_job_finds_nothing() -> None:
    storage, driver = job()
    before = dict(storage.files)
    sweep(driver, now_ms=2 * DAY, grace_ms=DAY)
    assert storage.files == before


def test_sweep_takes_orphans_only() -> None:
    healthy, _ = job()
    storage, driver = with_orphans()
    sweep(driver, now_ms=2 * DAY, grace_ms=DAY)
    assert set(storage.files) == set(healthy.files)


def test_a_checkpoint_that_completes_meanwhile_is_safe() -> None:
    """The listing comes first, what is retained is read after it."""
    storage, driver = with_orphans()

    def completing() -> Iterator[LoadedSnapshot]:
        driver.checkpoint(LIVE[0], 5)
        yield from driver.loaded.values()

    sweep(driver, now_ms=9 * DAY, grace_ms=0, needed=completing())
    assert not {f"{JOB}/{key}" for key in ORPHANS} & set(storage.files)
    assert referenced_keys(driver.storage, driver.loaded.values()) <= set(storage.files)


def test_a_snapshot_that_cannot_be_read_stops_the_sweep(caplog: pytest.LogCaptureFixture) -> None:
    storage, driver = with_orphans()
    before = dict(storage.files)

    def failing() -> Iterator[LoadedSnapshot]:
        raise CheckpointError("checkpoint 3 cannot be read")
        yield

    sweep(driver, now_ms=9 * DAY, grace_ms=0, needed=failing())
    assert "was not swept: checkpoint 3 cannot be read" in caplog.text
    assert storage.files == before


def test_without_a_directory_per_job_nothing_is_swept() -> None:
    storage, driver = with_orphans()
    before = dict(storage.files)
    sweep(driver, now_ms=9 * DAY, grace_ms=0, layout=layout_of(JOB, create_subdir=False))
    assert storage.files == before


def test_a_former_leader_deletes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    storage, driver = with_orphans()
    Driver(storage, leader_epoch=2).start()
    before = dict(storage.files)
    sweep(driver, now_ms=9 * DAY, grace_ms=0)
    assert "nothing is deleted" in caplog.text
    assert storage.files == before


@given(st.data())
@settings(max_examples=60)
def test_never_a_file_that_is_needed(data: st.DataObject) -> None:
    """Whatever is listed: no named, young, current or foreign file is ever taken."""
    number = st.integers(1, 15)
    names = st.one_of(
        number.map(lambda n: f"shared/{HASH}-{n}-w"),
        number.map(lambda n: f"chk-{n}/{HASH}-{n}-w"),
        number.map(lambda n: f"chk-{n}/_metadata"),
        st.sampled_from(["shared/.tmp-1-1", "pointer/current", "taskowned/x", "other"]),
    )
    keys = data.draw(st.lists(names, unique=True, max_size=12))
    ages = {key: data.draw(st.integers(-3, 3)) for key in keys}
    referenced = data.draw(st.sets(st.sampled_from(keys))) if keys else set()
    current = data.draw(number)
    entries = [Entry(f"{JOB}/{key}", 1, 100 - ages[key], "") for key in keys]
    orphans = find_orphans(
        entries,
        LAYOUT,
        {f"{JOB}/{key}" for key in referenced},
        current_id=current,
        now_ms=100,
        grace_ms=1,
    )
    for orphan in orphans:
        key = orphan.key.removeprefix(f"{JOB}/")
        assert key not in referenced
        assert key not in ("pointer/current", "taskowned/x", "other")
        if orphan.is_deletable:
            assert ages[key] > 1
            parts = key.replace("/", "-").split("-")
            ids = [int(part) for part in parts if part.isdigit() and len(part) < 3]
            assert "tmp" in key or max(ids) < current
