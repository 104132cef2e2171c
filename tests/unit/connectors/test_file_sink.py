"""Part files: names, buckets, rolling by hand-worked figures."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from file_sink_job import CONTEXT, at, hidden, parts, rows, write

from penstock.connectors.file_sink.bulk_outputs import BulkWriterFactory
from penstock.connectors.file_sink.encoders import Encoder
from penstock.connectors.file_sink.parts import FileCommitter
from penstock.connectors.file_sink.rolling import (
    BucketAssigner,
    DateTimeBucketAssigner,
    OutputFileConfig,
    RollingPolicy,
)
from penstock.connectors.file_sink.sink import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    StreamingFileSink,
)
from penstock.core.errors import (
    ConfigurationError,
    JobExecutionError,
    ProgramError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from pathlib import Path

# -- rolling --------------------------------------------------------------------------------------


def test_epochs_collect_in_one_part(tmp_path: Path) -> None:
    sink = rows(tmp_path, rollover_interval=3000)
    committer = sink.create_committer()
    for epoch in (1, 2, 3):
        committer.commit(write(sink, [epoch], epoch), at(epoch))
        assert parts(tmp_path) == {}
    committer.commit(write(sink, [4], 4), at(4))  # The part began at 1 s and is 3 s old.
    assert parts(tmp_path) == {"part-0-000001": "1\n2\n3\n4\n"}
    assert hidden(tmp_path) == []
    committer.commit(write(sink, [5], 5), at(5))
    assert len(parts(tmp_path)) == 1
    committer.commit([], at(6, final=True))
    assert parts(tmp_path) == {"part-0-000001": "1\n2\n3\n4\n", "part-0-000005": "5\n"}


def test_a_part_is_closed_when_it_is_large(tmp_path: Path) -> None:
    sink = rows(tmp_path, part_size=6)
    committer = sink.create_committer()
    committer.commit(write(sink, ["ab"], 1), at(1))  # 3 bytes
    assert parts(tmp_path) == {}
    committer.commit(write(sink, ["cd"], 2), at(2))  # 6 bytes
    assert parts(tmp_path) == {"part-0-000001": "ab\ncd\n"}


def test_a_checkpoint_of_many_epochs_makes_parts_of_one_size(tmp_path: Path) -> None:
    sink = rows(tmp_path, part_size=6)
    committables = [one for epoch in range(1, 6) for one in write(sink, ["ab"], epoch)]
    sink.create_committer().commit(committables, at(5))
    assert parts(tmp_path) == {
        "part-0-000001": "ab\ncd\n".replace("cd", "ab"),
        "part-0-000003": "ab\nab\n",
    }


def test_a_part_is_closed_after_inactivity(tmp_path: Path) -> None:
    sink = rows(tmp_path, inactivity_interval=2000)
    committer = sink.create_committer()
    committer.commit(write(sink, [1], 1), at(1))
    committer.commit([], at(2))
    assert parts(tmp_path) == {}
    committer.commit([], at(3))
    assert parts(tmp_path) == {"part-0-000001": "1\n"}


def test_a_large_epoch_makes_several_parts(tmp_path: Path) -> None:
    sink = rows(tmp_path, part_size=4)
    writer = sink.create_writer(CONTEXT)
    for value in ("abc", "def", "g"):
        writer.write([value], None, 0)
    sink.create_committer().commit(writer.prepare_commit(), at(1, final=True))
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["abc\n", "def\n", "g\n"]


def test_subtasks_have_parts_of_their_own(tmp_path: Path) -> None:
    sink = rows(tmp_path)
    committables = write(sink, ["b"], 1, subtask=1) + write(sink, ["a"], 1)
    sink.create_committer().commit(committables, at(1, final=True))
    assert parts(tmp_path) == {"part-0-000001": "a\n", "part-1-000001": "b\n"}


def test_another_job_never_overwrites(tmp_path: Path) -> None:
    for job in ("a", "b"):
        sink = rows(tmp_path)
        committables = write(sink, [job], 1, job_id=job * 32)
        sink.create_committer().commit(committables, at(1, final=True))
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == ["a\n", "b\n"]


def test_names(tmp_path: Path) -> None:
    config = OutputFileConfig.builder().with_part_prefix("out").with_part_suffix(".txt").build()
    assert (config.get_part_prefix(), config.get_part_suffix()) == ("out", ".txt")
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    sink = builder.with_output_file_config(config).with_bucket_check_interval(1000).build()
    sink.create_committer().commit(write(sink, ["x"], 1), at(1, final=True))
    (path,) = tmp_path.rglob("out*")
    assert re.fullmatch(r"out-0-000001-[0-9a-f]{16}\.txt", path.name)


# -- buckets --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "zone", "expected"),
    [
        ("yyyy-MM-dd--HH", "UTC", "2024-02-29--23"),
        ("yyyy-MM-dd--HH", "GMT+01:00", "2024-03-01--00"),
        ("yyyy-MM-dd--HH", "GMT-08:00", "2024-02-29--15"),
        ("yyyy-MM-dd--HH", "America/Los_Angeles", "2024-02-29--15"),
        ("yyyy/MM/dd", "UTC", "2024/02/29"),
        ("'dt='yyyyMMdd'T'HHmmss", "UTC", "dt=20240229T235958"),
        ("''yy%", "UTC", "'24%"),
    ],
)
def test_date_time_buckets(pattern: str, zone: str, expected: str) -> None:
    # 2024-02-29T23:59:58Z
    assert DateTimeBucketAssigner(pattern, zone).bucket_of_epoch(1_709_251_198_000) == expected


@pytest.mark.parametrize(
    ("pattern", "zone", "message"),
    [
        ("yyyy-ww", None, "'ww', which is not supported"),
        ("yyyy'", None, "a quote without an end"),
        ("yyyy", "Mars/Base", "'Mars/Base' is unknown"),
    ],
)
def test_wrong_date_formats(pattern: str, zone: str | None, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        DateTimeBucketAssigner(pattern, zone)


class ByLetter(BucketAssigner):
    """Buckets by the first letter; notes what the context says."""

    def get_bucket_id(self, element: Any, context: Any) -> str:
        assert (context.timestamp(), context.current_watermark()) == (int(element[1:]), 7)
        assert context.current_processing_time() == 5
        return f"k={element[0]}"


def test_own_buckets(tmp_path: Path) -> None:
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    sink = builder.with_bucket_assigner(ByLetter()).build()
    writer = sink.create_writer(replace(CONTEXT, now_ms=5))
    writer.write(["a1", "b2", "a3"], [1, 2, 3], 7)
    sink.create_committer().commit(writer.prepare_commit(), at(1, final=True))
    assert parts(tmp_path) == {"k=a/part-0-000001": "a1\na3\n", "k=b/part-0-000001": "b2\n"}


@pytest.mark.parametrize("bucket", ["../x", "/x", "a//b", "_x", ".x", "a/", None, 5])
def test_buckets_stay_below_the_base_path(tmp_path: Path, bucket: Any) -> None:
    class Wrong(BucketAssigner):
        def get_bucket_id(self, element: Any, context: Any) -> str:
            return bucket  # type: ignore[no-any-return]

    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    writer = builder.with_bucket_assigner(Wrong()).build().create_writer(CONTEXT)
    with pytest.raises(JobExecutionError, match="a bucket is a relative path"):
        writer.write(["x"], None, 0)


def test_an_epoch_may_have_many_buckets(tmp_path: Path) -> None:
    class Each(BucketAssigner):
        def get_bucket_id(self, element: Any, context: Any) -> str:
            return str(element)

    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    sink = builder.with_bucket_assigner(Each()).build()
    writer = sink.create_writer(CONTEXT)
    open_before = len(os.listdir("/proc/self/fd"))
    writer.write(list(range(300)), None, 0)
    assert len(os.listdir("/proc/self/fd")) == open_before
    sink.create_committer().commit(writer.prepare_commit(), at(1, final=True))
    assert len(parts(tmp_path)) == 300


# -- builders -------------------------------------------------------------------------------------


def test_wrong_arguments(tmp_path: Path) -> None:
    path = str(tmp_path)
    encoder = Encoder.simple_string_encoder()
    with pytest.raises(ConfigurationError, match="nor any other output"):
        FileSink.for_row_format("https://host/out", encoder)
    with pytest.raises(ProgramError, match="is no Encoder"):
        FileSink.for_row_format(path, "text")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="is no bulk format"):
        FileSink.for_bulk_format(path, "parquet")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="is no BucketAssigner"):
        FileSink.for_row_format(path, encoder).with_bucket_assigner("day")  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="on_checkpoint_rolling_policy"):
        FileSink.for_bulk_format(path, BulkWriterFactory.json()).with_rolling_policy(
            RollingPolicy.default_rolling_policy()  # type: ignore[arg-type]
        )
    with pytest.raises(ProgramError, match="must all be above 0"):
        RollingPolicy.default_rolling_policy(part_size=0)
    with pytest.raises(ProgramError, match="above 0"):
        FileSink.for_row_format(path, encoder).with_bucket_check_interval(0)
    with pytest.raises(ProgramError, match="hidden"):
        OutputFileConfig("_part", "")
    with pytest.raises(ProgramError, match="contains a slash"):
        OutputFileConfig("a/b", "")
    with pytest.raises(ProgramError, match="'UTF-9' is not known"):
        Encoder.simple_string_encoder("UTF-9")


def test_compaction_is_refused(tmp_path: Path) -> None:
    builder = FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    assert builder.disable_compact() is builder
    with pytest.raises(UnsupportedError, match="raise part_size"):
        builder.enable_compact(None, None)
    for call in (
        FileCompactStrategy.builder,
        FileCompactor.concat_file_compactor,
        FileCompactor.identical_file_compactor,
    ):
        with pytest.raises(UnsupportedError, match="raise part_size"):
            call()


def test_the_older_name(tmp_path: Path) -> None:
    with pytest.warns(DeprecationWarning, match="use FileSink"):
        builder = StreamingFileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder())
    assert isinstance(builder.build().create_committer(), FileCommitter)
    with pytest.warns(DeprecationWarning, match="use FileSink"):
        StreamingFileSink.for_bulk_format(str(tmp_path), BulkWriterFactory.json())
