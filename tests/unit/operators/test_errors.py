"""A user's exception, told with the user's own frames first."""

from __future__ import annotations

import sys
from concurrent.futures import Future
from pathlib import Path

import pytest

import penstock.demo
from penstock.common import Configuration, Time, WatermarkStrategy
from penstock.core.errors import RECORD_CHARACTERS, ProgramError, UserFunctionError, shorten
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.job.start import run_program
from penstock.operators.errors import describe_exception, user_code
from penstock.operators.function_logic import FilterSpec, FlatMapSpec, MapSpec
from penstock.operators.functions import KeyedProcessFunction, MapFunction
from penstock.operators.process import KeyedProcessSpec
from penstock.testing.harness import OneOperatorHarness


def parse(line):
    return helper(line)


def helper(line):
    return int(line)


def test_the_users_frames_come_first_and_ours_not_at_all():
    harness = OneOperatorHarness(MapSpec(parse), name="Parse", subtask=1, parallelism=4)
    with pytest.raises(UserFunctionError) as caught:
        harness.process("1", "2", "x", "4")
    error = caught.value
    assert (error.operator_name, error.uid, error.subtask) == ("Parse", "Parse", 1)
    assert error.record == "'x'"
    assert error.cause_type == "ValueError"
    lines = str(error).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[1].endswith(", in parse")
    assert "src/penstock" not in str(error)
    text = str(error)
    assert "in helper" in text
    assert "ValueError: invalid literal for int() with base 10: 'x'" in text
    assert text.endswith("in operator 'Parse' (uid 'Parse'), subtask 2 of 4\n  record: 'x'")


def test_the_demo_is_a_program_as_any_other():
    demo = Path(penstock.demo.__file__).with_name("job.py")
    code = compile("def fail(value):\n    raise RuntimeError(value)\n", str(demo), "exec")
    program = {}
    exec(code, program)
    harness = OneOperatorHarness(MapSpec(program["fail"]), name="Fail")
    with pytest.raises(UserFunctionError) as caught:
        harness.process("x")
    lines = str(caught.value).splitlines()
    assert lines[1] == f'  File "{demo}", line 2, in fail'
    assert "simple.py" not in str(caught.value)


def test_the_line_that_waits_for_a_job_is_the_programs():
    job = Future()
    job.set_exception(ProgramError("the job cannot start"))
    with pytest.raises(ProgramError) as caught:
        job.result()
    lines = describe_exception(caught.value).splitlines()
    assert [line for line in lines if "File " in line] == lines[1:2]
    assert lines[2] == "    job.result()"


def test_a_built_in_has_no_frames_to_show():
    with pytest.raises(UserFunctionError) as caught:
        OneOperatorHarness(MapSpec(int)).process("1", "x")
    assert str(caught.value).startswith("ValueError: invalid literal")
    assert caught.value.record == "'x'"


@pytest.mark.parametrize(
    ("program", "first", "last"),
    [
        (
            "import nowhere\n",
            'File "app.py", line 1, in <module>',
            "ModuleNotFoundError: No module",
        ),
        ("def\n", 'File "app.py", line 1', "SyntaxError: "),
        (None, "FileNotFoundError: ", "app.py'"),
    ],
    ids=["import", "syntax", "no-file"],
)
def test_programs_that_do_not_begin_are_told_without_what_began_them(
    program, first, last, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    if program is not None:
        (tmp_path / "app.py").write_text(program)
    with pytest.raises((ImportError, SyntaxError, OSError)) as caught:
        run_program("app.py", None, ())
    trace = caught.value.__traceback__
    assert trace is not None
    text = describe_exception(caught.value.with_traceback(trace.tb_next))
    lines = text.removeprefix("Traceback (most recent call last):\n").splitlines()
    assert lines[0].strip().startswith(first)
    assert last in lines[-1]
    assert "runpy" not in text
    assert "penstock" not in text


def test_the_directory_of_a_program_is_once_on_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "app.py").write_text("import beside_the_app")
    (tmp_path / "beside_the_app.py").write_text("")
    run_program(str(tmp_path / "app.py"), None, (), [str(tmp_path), "/libraries"])
    assert sys.path[:2] == [str(tmp_path), "/libraries"]
    assert sys.path.count(str(tmp_path)) == 1


@pytest.mark.parametrize("spec", [MapSpec(parse), FilterSpec(parse)])
@pytest.mark.parametrize("timestamps", [None, [1, 2, 3]])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_the_failing_record_is_found_wherever_it_stands(spec, timestamps, position):
    values = ["1", "2", "3"]
    values[position] = f"bad {position}"
    with pytest.raises(UserFunctionError) as caught:
        OneOperatorHarness(spec).process(*values, timestamps=timestamps)
    assert caught.value.record == repr(f"bad {position}")


def stop(value):
    if value == 2:
        raise StopIteration
    return value


@pytest.mark.parametrize("spec", [MapSpec(stop), FilterSpec(stop)])
def test_a_stray_stop_iteration_does_not_end_the_batch_in_silence(spec):
    with pytest.raises(UserFunctionError) as caught:
        OneOperatorHarness(spec).process(1, 2, 3)
    assert caught.value.cause_type == "StopIteration"
    assert caught.value.record == "2"


@pytest.mark.parametrize(
    "compute",
    [
        lambda keyed: keyed.sum(),
        lambda keyed: keyed.window(TumblingEventTimeWindows.of(Time.milliseconds(10))).sum(),
    ],
)
def test_a_stop_iteration_of_a_key_selector_loses_no_records(compute):
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration().set_string("penstock.spark.master", "in-process")
    )
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(lambda v: v)
    numbers = env.from_collection([1, 2, 3, 4]).assign_timestamps_and_watermarks(strategy)
    compute(numbers.key_by(lambda value: next(iter(range(value, 3))))).print()
    with pytest.raises(UserFunctionError, match="in the key selector") as caught:
        env.execute()
    assert (caught.value.cause_type, caught.value.record) == ("StopIteration", "3")


def test_no_iterable_is_answered_with_a_hint():
    with pytest.raises(UserFunctionError) as caught:
        OneOperatorHarness(FlatMapSpec(lambda value: 5)).process(1)
    assert "'int' object is not iterable" in str(caught.value)
    assert "hint: yield the results, or return an iterable" in str(caught.value)


class WithoutTimestamps(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.timestamp() + value


class GetsStateLate(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield ctx.get_state("count")


@pytest.mark.parametrize(
    ("function", "hint"),
    [
        (WithoutTimestamps(), r"hint: timestamp\(\) is None, .* assign_timestamps_and_watermarks"),
        (GetsStateLate(), r"hint: state is obtained in open\(self, context\), .*get_state"),
    ],
    ids=["no timestamps", "state outside open"],
)
def test_common_accidents_are_answered_with_a_hint(function, hint):
    harness = OneOperatorHarness(KeyedProcessSpec(function), key=str)
    with pytest.raises(UserFunctionError, match=hint):
        harness.process(1)


class Failing(KeyedProcessFunction):
    def process_element(self, value, ctx):
        yield 1
        raise RuntimeError("half way")

    def on_timer(self, timestamp, ctx):
        raise RuntimeError("too late")


def test_keyed_operators_name_the_key():
    harness = OneOperatorHarness(KeyedProcessSpec(Failing()), key=lambda value: value["k"])
    with pytest.raises(UserFunctionError) as caught:
        harness.process({"k": "a"})
    assert str(caught.value).endswith("  key: 'a'\n  record: {'k': 'a'}")
    assert harness.values == []


def test_a_timer_names_its_time_and_key():
    harness = OneOperatorHarness(KeyedProcessSpec(Failing()), key=str)
    harness.context.keyed_state.event_timers.add(50, "a", None)
    with pytest.raises(UserFunctionError) as caught:
        harness.watermark(60)
    assert "during: on_timer for EVENT_TIME 50, key 'a'" in str(caught.value)
    assert caught.value.record is None


class BadOpen(MapFunction):
    def open(self, runtime_context):
        raise RuntimeError("no connection")

    def map(self, value):
        return value


def test_open_is_named():
    with pytest.raises(UserFunctionError, match=r"(?s)no connection.*during: open\(\)"):
        OneOperatorHarness(MapSpec(BadOpen()))


def test_an_error_of_a_later_operator_is_not_told_twice():
    inner = UserFunctionError("inner", operator_name="later")
    with pytest.raises(UserFunctionError) as caught, user_code("earlier"):
        raise inner
    assert caught.value is inner


def test_what_is_no_exception_passes():
    with pytest.raises(KeyboardInterrupt), user_code("operator"):
        raise KeyboardInterrupt


def test_causes_are_kept():
    def load():
        try:
            helper("y")
        except ValueError as error:
            raise LookupError("no such thing") from error

    with pytest.raises(UserFunctionError) as caught:
        OneOperatorHarness(MapSpec(lambda value: load())).process(1)
    text = str(caught.value)
    assert text.index("ValueError") < text.index("direct cause") < text.index("LookupError")


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no repr")


class Endless:
    def __repr__(self):
        return "x" * 10_000


def test_texts_of_records_are_short_and_never_fail():
    assert shorten("abc") == "'abc'"
    assert "Unprintable" in shorten(Unprintable())
    assert "Unprintable" in shorten([Unprintable()])
    for value in (Endless(), "y" * 10_000, list(range(10_000)), {i: i for i in range(1000)}):
        assert len(shorten(value)) <= RECORD_CHARACTERS


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def test_an_exception_without_text_is_still_reported():
    assert "Unspeakable" in describe_exception(Unspeakable())


def test_our_own_words_need_no_traceback():
    try:
        raise ProgramError("do this instead")
    except ProgramError as error:
        # This very test is a frame of the user.
        assert "test_our_own_words" in describe_exception(error)
    assert describe_exception(ProgramError("do this instead")) == "ProgramError: do this instead"


def test_an_error_inside_penstock_keeps_its_frames():
    try:
        OneOperatorHarness(MapSpec(parse)).process(timestamps=5)
    except TypeError as error:
        # Without this test's frame, as if a subtask had made the call.
        ours = error.with_traceback(error.__traceback__.tb_next)
        assert "harness.py" in describe_exception(ours)
    else:
        pytest.fail("a number is no list of timestamps")
