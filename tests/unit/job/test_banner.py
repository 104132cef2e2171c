"""The start-up banner: effective values with sources, and warnings that save people."""

from __future__ import annotations

import tempfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from penstock.core.configuration import Configuration, Rank
from penstock.job.settings import JobSettings, read_settings
from penstock.job.start import BannerFacts, banner_lines, banner_warnings, facts_of

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

FACTS = BannerFacts("40dcc6d2ba90f13930abce295de8d038", "word count", "Spark 4.1.0")
CHECKPOINTING = "execution.checkpointing."


def settings(tmp_path: Path, **values: str) -> tuple[JobSettings, Configuration]:
    configuration = Configuration()
    configuration.put("io.tmp.dirs", str(tmp_path / "tmp"), Rank.FILE, "conf/config.yaml:1")
    for number, (key, value) in enumerate(values.items(), 3):
        key = CHECKPOINTING + key.replace("_", "-")
        configuration.put(key, value, Rank.FILE, f"conf/config.yaml:{number}")
    return read_settings(configuration, "0" * 32), configuration


def test_values_and_their_sources(tmp_path: Path) -> None:
    found, configuration = settings(tmp_path, interval="60 s", dir="s3://bucket/checkpoints")
    configuration.put(CHECKPOINTING + "interval", "10 s", Rank.CODE, "wordcount.py:14")
    found = read_settings(configuration, "1" * 32)
    lines = banner_lines(FACTS, found, configuration)
    assert lines[0].startswith("Penstock ")
    assert lines[0].endswith(' · job 40dcc6d2ba90f13930abce295de8d038 "word count"')
    texts = [" ".join(line.split()) for line in lines[1:]]
    assert texts == [
        "state backend hashmap default",
        "checkpointing every 10 s, timeout 10 min, pause 0 ms, keep 1 code wordcount.py:14, "
        "default",
        "checkpoint storage filesystem s3://bucket/checkpoints conf/config.yaml:4",
        "small state up to 20,480 bytes stays inside _metadata, so few or no data files is normal "
        "default",
        "on cancel checkpoints are deleted default",
        f"restart strategy {found.restart_strategy.describe()} default",
    ]


def test_off(tmp_path: Path) -> None:
    found, configuration = settings(tmp_path)
    texts = [" ".join(line.split()) for line in banner_lines(FACTS, found, configuration)]
    assert "checkpointing off default" in texts
    assert "checkpoint storage this process's memory default" in texts


def warnings_of(found: JobSettings, **facts: object) -> list[str]:
    return banner_warnings(
        BannerFacts("0" * 32, "job", "Spark", **facts),  # type: ignore[arg-type]
        found,
    )


def test_state_without_checkpointing(tmp_path: Path) -> None:
    found, _ = settings(tmp_path)
    (text,) = warnings_of(found, stateful=("map-3", "window-5"), is_unbounded=True)
    assert text.startswith("2 stateful operators ('map-3', 'window-5') and checkpointing is off")
    assert "enable_checkpointing" in text
    # A bounded job reads everything again; one without state has nothing to lose.
    assert warnings_of(found, stateful=("map-3",)) == []
    assert warnings_of(found, is_unbounded=True) == []


def test_storage_that_does_not_last(tmp_path: Path) -> None:
    found, _ = settings(tmp_path, interval="1 s")
    (text,) = warnings_of(found)
    assert "memory" in text and "execution.checkpointing.dir" in text


def test_one_volume(tmp_path: Path) -> None:
    found, _ = settings(tmp_path, interval="1 s", dir=str(tmp_path))
    assert warnings_of(found) == []
    (text,) = warnings_of(found, same_volume=True)
    assert "one volume" in text


def test_operators_without_uid(tmp_path: Path) -> None:
    found, _ = settings(tmp_path, interval="1 s", dir=str(tmp_path))
    (text,) = warnings_of(found, without_uid=("map-3",))
    assert text.startswith("1 stateful operator ('map-3') without uid.")
    (text,) = warnings_of(found, without_uid=tuple(f"map-{n}" for n in range(7)))
    assert "and 2 more" in text


def test_one_volume_is_no_matter_in_a_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints below the directory for temporary files are to last no longer than these."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))

    def same_volume(place: str) -> bool:
        found, _ = settings(tmp_path / place, interval="60 s", dir=str(tmp_path / place))
        graph: Any = SimpleNamespace(operators=(), job_name="trial")
        return facts_of("0" * 32, graph, found, "Spark").same_volume

    assert same_volume("checkpoints")
    assert not same_volume("temporary/checkpoints")
