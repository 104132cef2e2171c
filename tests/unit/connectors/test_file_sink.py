"""Part files: names, buckets, rolling by hand-worked figures, and every point of a crash."""

from __future__ import annotations

import csv
import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as arrow
import pytest
from pyarrow import parquet

from penstock.connectors.file_sink import committer as committer_module
from penstock.connectors.file_sink import writer as writer_module
from penstock.connectors.file_sink.buckets import BucketAssigner, DateTimeBucketAssigner
from penstock.connectors.file_sink.committer import FileCommitter
from penstock.connectors.file_sink.encoders import BulkWriterFactory, Encoder, OutputFormat
from penstock.connectors.file_sink.rolling import OutputFileConfig, RollingPolicy
from penstock.connectors.file_sink.sink import (
    FileCompactor,
    FileCompactStrategy,
    FileSink,
    StreamingFileSink,
)
from penstock.connectors.sink import CommitContext, WriterContext
from penstock.core.errors import JobExecutionError, ProgramError, UnsupportedError
from penstock.core.row import Row

CONTEXT = WriterContext(
    job_id="a" * 32,
    uid="sink",
    subtask=0,
    parallelism=2,
    epoch=1,
    attempt_id="aaaaaaaa-0-1-0",
    now_ms=0,
    scratch_dir="",
)


def rows(folder: Path, **policy: int) -> FileSink:
    """A sink of text in the base path."""
    builder = FileSink.for_row_format(str(folder), Encoder.simple_string_encoder())
    builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
    return builder.with_rolling_policy(RollingPolicy.default_rolling_policy(**policy)).build()


def bulk(folder: Path, output_format: OutputFormat) -> FileSink:
    builder = FileSink.for_bulk_format(str(folder), output_format)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def write(sink: FileSink, values: list[Any], epoch: int, **changes: Any) -> list[Any]:
    """Writes one epoch; epoch n is at n seconds."""
    changes = {
        "attempt_id": f"aaaaaaaa-0-{epoch}-{changes.get('subtask', 0)}",
        "now_ms": epoch * 1000,
        **changes,
    }
    writer = sink.create_writer(replace(CONTEXT, epoch=epoch, **changes))
    writer.write(values, None, 0)
    committables = writer.prepare_commit()
    writer.close()
    return committables


def at(seconds: int, *, final: bool = False) -> CommitContext:
    return CommitContext("a" * 32, "sink", seconds, None, final, seconds * 1000)


def parts(folder: Path) -> dict[str, str]:
    """Visible files by their path without the id."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            name = re.sub(r"-[0-9a-f]{16}", "", str(path.relative_to(folder)))
            assert name not in found
            found[name] = path.read_text()
    return found


def hidden(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob(".*")]


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


# -- formats --------------------------------------------------------------------------------------


def test_text_of_anything(tmp_path: Path) -> None:
    sink = rows(tmp_path)
    committables = write(sink, ["é", 1, None, (1, "a")], 1)
    sink.create_committer().commit(committables, at(1, final=True))
    assert parts(tmp_path) == {"part-0-000001": "é\n1\nNone\n(1, 'a')\n"}


def test_csv_has_one_header_for_each_part(tmp_path: Path) -> None:
    sink = bulk(tmp_path, BulkWriterFactory.csv(["a", "b"]))
    committables = write(sink, [{"b": 'q"', "a": 1}, (2, "x,y")], 1)
    committables += write(sink, [Row(a=3, b="two\nlines"), [4, None]], 2)
    sink.create_committer().commit(committables, at(2))
    (text,) = parts(tmp_path).values()
    assert list(csv.reader(text.splitlines(keepends=True))) == [
        ["a", "b"],
        ["1", 'q"'],
        ["2", "x,y"],
        ["3", "two\nlines"],
        ["4", ""],
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [({"c": 1}, "a column 'c'; the columns are a, b"), ((1,), "1 fields instead of 2")],
)
def test_csv_errors(tmp_path: Path, value: Any, message: str) -> None:
    sink = bulk(tmp_path, BulkWriterFactory.csv(["a", "b"]))
    with pytest.raises(JobExecutionError, match=message):
        write(sink, [value], 1)


def test_json(tmp_path: Path) -> None:
    class Mine(dict[str, int]):
        """msgspec does not know this one."""

    sink = bulk(tmp_path, BulkWriterFactory.json())
    values = [{"a": [1, None]}, Row(a=1, b=Row(c=2)), (1, "x")]
    committables = write(sink, values, 1) + write(sink, [Mine(a=1)], 2)
    sink.create_committer().commit(committables, at(2))
    (text,) = parts(tmp_path).values()
    assert [json.loads(line) for line in text.splitlines()] == [
        {"a": [1, None]},
        {"a": 1, "b": {"c": 2}},
        [1, "x"],
        {"a": 1},
    ]


def test_parquet_joins_epochs_whose_types_differ(tmp_path: Path) -> None:
    sink = bulk(tmp_path, BulkWriterFactory.parquet())
    committables = write(sink, [{"a": 1, "b": None}], 1) + write(sink, [{"a": 2.5, "c": "x"}], 2)
    sink.create_committer().commit(committables, at(2))
    (path,) = (path for path in tmp_path.iterdir() if not path.name.startswith("."))
    assert parquet.read_table(path).to_pylist() == [
        {"a": 1.0, "b": None, "c": None},
        {"a": 2.5, "b": None, "c": "x"},
    ]
    assert hidden(tmp_path) == []


def test_parquet_that_does_not_fit_together(tmp_path: Path) -> None:
    sink = bulk(tmp_path, BulkWriterFactory.parquet())
    committables = write(sink, [{"a": 1}], 1) + write(sink, [{"a": "x"}], 2)
    with pytest.raises(JobExecutionError, match=r"Give the format a pyarrow\.Schema"):
        sink.create_committer().commit(committables, at(2))


def test_parquet_with_a_schema(tmp_path: Path) -> None:
    schema = arrow.schema([("a", arrow.int16()), ("b", arrow.string())])
    sink = bulk(tmp_path, BulkWriterFactory.parquet(schema))
    sink.create_committer().commit(write(sink, [(1, None)], 1), at(1))
    (path,) = tmp_path.iterdir()
    assert parquet.read_schema(path).equals(schema)
    with pytest.raises(JobExecutionError, match="column 'a' cannot be written as int16"):
        write(sink, [("x", "y")], 2)


# -- crashes --------------------------------------------------------------------------------------


class Crash(Exception):
    """The driver died here."""


def crash_points(monkeypatch: pytest.MonkeyPatch, after: int, *, effect: bool) -> list[str]:
    """Makes the n-th change of the file system fail, before or after it has its effect."""
    done: list[str] = []

    def wrap(name: str, function: Any) -> Any:
        def wrapper(*arguments: Any, **options: Any) -> Any:
            done.append(name)
            fails = len(done) == after
            if fails and not effect:
                raise Crash(name)
            result = function(*arguments, **options)
            if fails:
                raise Crash(name)
            return result

        return wrapper

    for name in ("rename", "unlink", "write_text"):
        monkeypatch.setattr(Path, name, wrap(name, getattr(Path, name)))
    monkeypatch.setattr(
        committer_module, "make_durable", wrap("make_durable", writer_module.make_durable)
    )
    return done


@pytest.mark.parametrize("effect", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("restores", [True, False], ids=["restored", "same committer"])
def test_every_point_of_a_crash(tmp_path: Path, effect: bool, restores: bool) -> None:
    """Fails the first change, then the second, until a commit passes untouched."""
    crashes = 0
    for after in range(1, 60):
        folder = tmp_path / f"{after}"
        folder.mkdir()
        sink = rows(folder, part_size=4)
        committer = sink.create_committer()
        committer.commit(write(sink, ["a"], 1), at(1))  # Stays open.
        state = committer.snapshot()
        later = [
            one
            for epoch, text in ((2, "b"), (3, "c"), (4, "d"), (5, "efg"), (6, "hij"))
            for one in write(sink, [text], epoch)
        ]
        with pytest.MonkeyPatch.context() as patch:
            done = crash_points(patch, after, effect=effect)
            try:
                committer.commit(later, at(6))
            except Crash:
                crashes += 1
        if restores:
            committer = sink.create_committer()
            committer.restore(state)
        committer.commit(later, at(6))
        assert parts(folder) == {
            "part-0-000001": "a\nb\n",
            "part-0-000003": "c\nd\n",
            "part-0-000005": "efg\n",
            "part-0-000006": "hij\n",
        }
        assert hidden(folder) == []
        if len(done) < after:
            break
    assert crashes > 15


def test_output_that_is_lost_is_an_error(tmp_path: Path) -> None:
    sink = rows(tmp_path)
    committables = write(sink, ["a"], 1)
    (tmp_path / committables[0]["pending"]).unlink()
    with pytest.raises(JobExecutionError, match="the output of epoch 1 is lost"):
        sink.create_committer().commit(committables, at(1))


def test_an_older_state_knows_what_became_visible_since(tmp_path: Path) -> None:
    """A savepoint from before several commits: its output is there already, and once."""
    sink = rows(tmp_path, part_size=4)
    committer = sink.create_committer()
    first = write(sink, ["a"], 1)
    committer.commit(first, at(1))
    state = committer.snapshot()
    for epoch, text in ((2, "b"), (3, "c"), (4, "d")):
        committer.commit(write(sink, [text], epoch), at(epoch))
    before = parts(tmp_path)
    assert before == {"part-0-000001": "a\nb\n", "part-0-000003": "c\nd\n"}
    old = sink.create_committer()
    old.restore(state)
    old.commit(first, at(5))
    assert parts(tmp_path) == before


def test_a_writer_that_fails_leaves_nothing(tmp_path: Path) -> None:
    sink = rows(tmp_path, part_size=2)
    writer = sink.create_writer(CONTEXT)
    writer.write(["a"], None, 0)
    writer.write(["b"], None, 0)
    writer.close()
    assert list(tmp_path.iterdir()) == []


# -- builders -------------------------------------------------------------------------------------


def test_wrong_arguments(tmp_path: Path) -> None:
    path = str(tmp_path)
    encoder = Encoder.simple_string_encoder()
    with pytest.raises(UnsupportedError, match="Use to_spark"):
        FileSink.for_row_format("s3://bucket/out", encoder)
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
