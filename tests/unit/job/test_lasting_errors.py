"""What no restart heals ends a job at once; what repeats itself is said; the rest restarts."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import pytest

from penstock.checkpoint.errors import CheckpointError
from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.core.errors import (
    EnvironmentError_,
    InputError,
    JobExecutionError,
    PenstockError,
    ProgramError,
    StateError,
    UserFunctionError,
    is_lasting,
)
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSource, StreamFormat
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink
from penstock.job.record import FailuresInARow, in_one_line


def environment() -> StreamExecutionEnvironment:
    """With checkpoints, and so with restarts without end."""
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    return env.enable_checkpointing(1000)


def by_cause(cause: str) -> UserFunctionError:
    return UserFunctionError("it raised", operator_name="Map", record="7", cause_type=cause)


@pytest.mark.parametrize(
    ("error", "lasting"),
    [
        (ProgramError("wrong"), True),
        (EnvironmentError_("missing"), True),
        (InputError("no number"), True),
        (by_cause("NameError"), True),
        (by_cause("SyntaxError"), True),
        (by_cause("ValueError"), False),
        (by_cause("requests.exceptions.ConnectionError"), False),
        (JobExecutionError("a worker is gone"), False),
        (StateError("a file is gone, and may come from the checkpoint"), False),
        (OSError("no answer"), False),
    ],
)
def test_which_errors_last(error: Exception, lasting: bool) -> None:
    assert is_lasting(error) == lasting


def lines(folder: Path, text: str, record_format: StreamFormat) -> Any:
    (folder / "input").write_text(text)
    return FileSource.for_record_stream_format(record_format, str(folder / "input")).build()


# A subtask that failed is forgotten with the file that it reads.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("text", "record_format"),
    [
        ("1,a\nx,b\n", StreamFormat.csv_format(header=False, columns=["n", "s"], types={"n": int})),
        ("1,a\n2\n", StreamFormat.csv_format(header=False, columns=["n", "s"])),
        ("n,s\n1,a\n", StreamFormat.csv_format(header=True, columns=["n", "other"])),
        ('{"n": 1}\n{"n": \n', StreamFormat.json_line_format()),
    ],
)
def test_a_bad_record_in_a_file_ends_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, text: str, record_format: StreamFormat
) -> None:
    env = environment()
    source = lines(tmp_path, text, record_format)
    env.from_source(source, WatermarkStrategy.no_watermarks(), "lines").print()
    with pytest.raises(InputError, match="input"):
        env.execute()
    said = [each.getMessage() for each in caplog.records]
    assert [each for each in said if "is not restarted" in each]
    assert not [each for each in said if "restarts in" in each]


def test_a_missing_path_ends_the_job(tmp_path: Path) -> None:
    env = environment()
    env.read_text_file(str(tmp_path / "nowhere")).print()
    with pytest.raises(InputError, match="nowhere does not exist"):
        env.execute()


def test_a_watched_path_that_goes_away_may_come_back(tmp_path: Path) -> None:
    """Once it was there, as the state of the search says."""
    (tmp_path / "in").mkdir()
    builder = FileSource.for_record_stream_format(
        StreamFormat.text_line_format(), str(tmp_path / "in")
    )
    source = builder.monitor_continuously(1000).build()
    state = source.discover(None, 0).state
    (tmp_path / "in").rmdir()
    with pytest.raises(PenstockError, match="does not exist") as caught:
        source.discover(state, 10_000)
    assert not is_lasting(caught.value)


def test_failures_in_a_row_are_told_once_in_full() -> None:
    failures = FailuresInARow()

    def failed(record: str, cause: str = "ZeroDivisionError", epoch: int = 1) -> list[str]:
        error = UserFunctionError(
            f"the whole story, epoch: {epoch}",
            operator_name="Map",
            uid="map",
            record=record,
            cause_type=cause,
        )
        return failures.lines(error, 10)

    assert failed("7") == ["restarts in 10 ms after: the whole story, epoch: 1"]
    assert failed("7", epoch=2) == ["restarts in 10 ms after the same failure, 2 times in a row."]
    short, advice = failed("7", epoch=3)
    assert short == "restarts in 10 ms after the same failure, 3 times in a row."
    assert advice.startswith(
        "failed 3 times in a row in 'Map' at the record 7 with ZeroDivisionError"
    )
    assert "restart-strategy.type: fixed-delay" in advice
    assert len(failed("7")) == 1
    assert failed("8") == ["restarts in 10 ms after: the whole story, epoch: 1"]
    assert failed("8", "KeyError") == ["restarts in 10 ms after: the whole story, epoch: 1"]
    for _ in range(27):
        failed("8", "KeyError")
    assert failed("8", "KeyError")[0].endswith("29 times in a row.")
    assert len(failed("8", "KeyError")) == 2


def test_the_line_of_a_restart_has_the_cause() -> None:
    story = (
        'Traceback (most recent call last):\n  File "job.py", line 8, in parse\n'
        "ValueError: bad\nin operator 'Map' (uid 'map'), subtask 1 of 1\n  record: 7\n  epoch: 3"
    )
    error = UserFunctionError(story, operator_name="Map", record="7", cause_type="ValueError")
    (told,) = FailuresInARow().lines(error, 100)
    line, _, rest = told.partition("\n")
    assert line == (
        "restarts in 100 ms after: ValueError: bad, in operator 'Map' (uid 'map'), subtask 1 of 1, "
        "record 7."
    )
    assert rest == story


def test_the_line_of_a_group_of_exceptions_has_its_name() -> None:
    def both(value: int) -> None:
        raise ExceptionGroup("both", [ValueError("a"), KeyError("b")])

    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration().set_string("penstock.spark.master", "in-process")
    )
    env.from_collection([7]).map(both).print()
    with pytest.raises(UserFunctionError) as caught:
        env.execute()
    assert in_one_line(caught.value).startswith("ExceptionGroup: both (2 sub-exceptions), in oper")


def test_the_line_of_a_list_has_its_first_row() -> None:
    both = CheckpointError("it cannot start from snapshot 4:\n  - no 'a'. Do x.\n  - no 'b'. Do y.")
    assert in_one_line(both) == "it cannot start from snapshot 4: no 'a'. Do x."


def test_other_failures_in_a_row_are_compared_without_their_epoch() -> None:
    failures = FailuresInARow()
    first, second, third = (
        failures.lines(JobExecutionError(f"Spark could not run epoch {epoch}: gone"), 5)
        for epoch in (4, 5, 6)
    )
    assert first == ["restarts in 5 ms after: Spark could not run epoch 4: gone"]
    assert len(second) == 1
    assert third[1].startswith("failed 3 times in a row: it hardly heals by itself. Remove the")
    assert "record" not in third[1]
    other = failures.lines(JobExecutionError("the disk is full.\n  in task 'a'"), 5)
    assert other == ["restarts in 5 ms after: the disk is full.\n  in task 'a'"]


def test_a_map_that_returns_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def forgets(value: int) -> None:
        value + 1

    env = environment()
    env.from_collection([1, 2, 3]).map(forgets).name("adds one").print()
    env.execute()
    assert [each.getMessage() for each in caplog.records if "None" in each.getMessage()] == [
        "'adds one' made None of all its 3 records. Does its function lack a return? To leave "
        "records out, use filter() or flat_map()."
    ]


def test_a_map_that_returns_none_on_purpose(caplog: pytest.LogCaptureFixture) -> None:
    """For some records, or where nothing takes its results."""
    env = environment()
    numbers = env.from_collection([1, 2, 3])
    numbers.map(lambda value: None if value < 3 else value).print()
    numbers.map(lambda value: None).name("looks only")
    env.execute()
    assert not [each for each in caplog.records if "made None" in each.getMessage()]


def test_a_sink_that_refuses_the_last_output_ends_the_job(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also with exactly-once output, which the database sees when the job is at its end."""
    env = environment()
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    database = options.with_url(f"jdbc:sqlite:{tmp_path / 'shop.db'}").build()
    row = Types.ROW_NAMED(["n"], [Types.LONG()])
    sink = JdbcSink.exactly_once_sink("INSERT INTO nowhere VALUES (?)", row, database)
    env.from_collection([Row(1)], type_info=row).sink_to(sink)
    with pytest.raises(InputError, match=r"^sink '.*': .* no such table: nowhere") as caught:
        env.execute()
    # What Python prints is little more than the line of the program and the text.
    assert len(traceback.format_exception(caught.value)) < 6
    assert "sqlite3." not in "".join(traceback.format_exception(caught.value)[:-1])
    assert not [each for each in caplog.records if "restarts in" in each.getMessage()]
