"""Lines and CSV rows of files cut anywhere, against a simple reading of the whole file."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, settings, strategies as st

from penstock.connectors.files import inputs, range_reader
from penstock.connectors.files.formats import StreamFormat
from penstock.connectors.files.source import FileSource
from penstock.connectors.source import Budget
from penstock.core.errors import JobExecutionError, ProgramError

if TYPE_CHECKING:
    from collections.abc import Iterator
from contextlib import closing

PIECES = st.sampled_from(
    ["", "\n", "\r\n", "\r", "a", "ß", "\N{SNOWMAN}", "\U0001f600", " ", "xyz"]
)
TEXTS = st.lists(PIECES, max_size=40).map("".join)
CELLS = st.text(st.sampled_from(list('ab,"\n ß')), max_size=6)
# A row of one empty field is a blank line, which readers skip.
ROWS = st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=12)


@pytest.fixture(autouse=True, params=[False, True], ids=["", "tiny buffers"])
def buffers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs everything again with buffers that end inside lines and characters."""
    if request.param:
        monkeypatch.setattr(inputs, "_FETCH_BYTES", 3)
        monkeypatch.setattr(range_reader, "_MIN_PIECE", 1)
        monkeypatch.setattr(range_reader, "_MAX_PIECE", 5)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


def read_all(source: FileSource, budget: Budget) -> list[Any]:
    values: list[Any] = []
    for split in source.discover(None, 0).splits:
        with closing(source.create_reader()) as reader:
            position = split.start
            finished = False
            while not finished:
                result = reader.read(split, position, budget)
                values += result.values
                position, finished = result.position, result.finished
    return values


def file_source(
    path: Path, data: bytes, cut_bytes: int, stream_format: StreamFormat | None = None
) -> FileSource:
    path.unlink(missing_ok=True)
    path.write_bytes(data)
    builder = FileSource.for_record_stream_format(
        stream_format or StreamFormat.text_line_format(), str(path)
    )
    return builder.set_cut_bytes(cut_bytes).build()


def lines_of(data: bytes, charset: str = "utf-8") -> list[str]:
    """The model: what Python's own iteration over lines says."""
    lines = [line.removesuffix(b"\n").removesuffix(b"\r") for line in io.BytesIO(data)]
    return [line.decode(charset, "replace") for line in lines]


@settings(max_examples=150)
@given(TEXTS, st.integers(1, 20), st.integers(1, 7), st.integers(1, 30))
@example("a\r\nb\r\n", 3, 1, 1)
@example("\n\n\n", 1, 1, 1)
@example("no end", 2, 1, 1)
def test_lines(folder: Path, text: str, cut: int, records: int, size: int) -> None:
    data = text.encode()
    source = file_source(folder / "t.txt", data, cut)
    assert read_all(source, Budget(records, size, 0)) == lines_of(data)


@settings(max_examples=100)
@given(st.binary(max_size=40), st.integers(1, 9), st.integers(1, 5))
def test_bytes_that_are_not_utf8(folder: Path, data: bytes, cut: int, records: int) -> None:
    if data.startswith(b"\xef\xbb\xbf"):
        return
    source = file_source(folder / "b.txt", data, cut)
    assert read_all(source, Budget(records, 1 << 20, 0)) == lines_of(data)


@pytest.mark.parametrize("charset", ["latin-1", "gb18030", "shift_jis", "utf-8"])
@pytest.mark.parametrize("cut", [1, 2, 5, 1000])
def test_charsets(folder: Path, charset: str, cut: int) -> None:
    lines = {"latin-1": ["aé", "", "ÿ"]}.get(charset, ["日本", "", "表示a"])
    data = "\n".join(lines).encode(charset)
    stream_format = StreamFormat.text_line_format(charset)
    source = file_source(folder / "c.txt", data, cut, stream_format)
    assert read_all(source, Budget(2, 1 << 20, 0)) == lines


@pytest.mark.parametrize("charset", ["utf-16", "utf-16-le", "utf-32"])
def test_wide_charsets_are_one_split(folder: Path, charset: str) -> None:
    lines = ["日本", "\u0a0a", "b"]
    data = "\r\n".join(lines).encode(charset)
    source = file_source(folder / "w.txt", data, 2, StreamFormat.text_line_format(charset))
    assert len(source.discover(None, 0).splits) == 1
    assert read_all(source, Budget(1, 1, 0)) == lines


@pytest.mark.parametrize("cut", [1, 2, 3, 4, 100])
def test_byte_order_mark(folder: Path, cut: int) -> None:
    data = b"\xef\xbb\xbfone\n\xef\xbb\xbftwo\n"
    source = file_source(folder / "m.txt", data, cut)
    assert read_all(source, Budget(1, 1, 0)) == ["one", "\ufefftwo"]
    assert read_all(source, Budget(100, 1 << 20, 0)) == ["one", "\ufefftwo"]


def test_a_read_stops_at_the_bytes_too(folder: Path) -> None:
    # Lines begin at 0, 3, 6, 9: three of them begin less than 7 bytes behind the first.
    source = file_source(folder / "s.txt", b"ab\ncd\nef\ngh\n", 100)
    split = source.discover(None, 0).splits[0]
    with closing(source.create_reader()) as reader:
        result = reader.read(split, 0, Budget(100, 7, 0))
    assert (result.values, result.position) == (["ab", "cd", "ef"], 9)
    assert (result.finished, result.has_more) == (False, True)


def test_one_line_is_read_whatever_the_budget(folder: Path) -> None:
    source = file_source(folder / "l.txt", b"x" * 1000 + b"\ny\n", 10)
    assert read_all(source, Budget(5, 1, 0)) == ["x" * 1000, "y"]


def test_a_file_without_newlines_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(range_reader, "_MAX_RECORD_BYTES", 1000)
    source = file_source(folder / "z.txt", b"\0" * 5_000_000, 1 << 30)
    with pytest.raises(JobExecutionError, match="Is this a text file"):
        read_all(source, Budget(5, 1, 0))


# -- CSV ------------------------------------------------------------------------------------------


def csv_bytes(rows: list[list[str]], **options: Any) -> bytes:
    text = io.StringIO(newline="")
    csv.writer(text, **options).writerows(rows)
    return text.getvalue().encode()


@settings(max_examples=150)
@given(ROWS, st.integers(1, 25), st.integers(1, 5), st.integers(1, 30), st.booleans())
def test_csv_rows(
    folder: Path, rows: list[list[str]], cut: int, records: int, size: int, unix: bool
) -> None:
    data = csv_bytes([["k", "v"], *rows], lineterminator="\n" if unix else "\r\n")
    source = file_source(folder / "r.csv", data, cut, StreamFormat.csv_format(records="tuple"))
    assert read_all(source, Budget(records, size, 0)) == [tuple(row) for row in rows]


def test_a_row_that_is_longer_than_the_budget_is_read_alone(folder: Path) -> None:
    data = b'"a\nb\nc\nd",x\n1,y\n2,z\n'
    stream_format = StreamFormat.csv_format(header=False, records="tuple")
    source = file_source(folder / "o.csv", data, 1000, stream_format)
    split = source.discover(None, 0).splits[0]
    with closing(source.create_reader()) as reader:
        result = reader.read(split, 0, Budget(100, 1, 0))
        assert (result.values, result.position) == ([("a\nb\nc\nd", "x")], 12)
        # A bound inside the row changes nothing, one behind it lets the next row in.
        assert reader.read(split, 0, Budget(100, 12, 0)) == result
        assert reader.read(split, 0, Budget(100, 13, 0)).position == 16


@settings(max_examples=100)
@given(st.text(st.sampled_from(list('a,"\n')), max_size=40), st.integers(1, 20))
def test_stray_quotes_never_give_wrong_rows(folder: Path, text: str, cut: int) -> None:
    """Whatever the quotes, the result is what the csv module reads, or an error."""
    data = text.encode()
    expected = [tuple(row) for row in csv.reader(io.StringIO(text, newline="")) if row]
    stream_format = StreamFormat.csv_format(header=False, records="tuple")
    source = file_source(folder / "q.csv", data, cut, stream_format)
    try:
        found = read_all(source, Budget(100, 1 << 20, 0))
    except JobExecutionError as error:
        assert cut < len(data)
        assert "stray quote" in str(error)
    else:
        assert found == expected


@pytest.mark.parametrize("cut", [1, 4, 9, 1000])
def test_csv_without_newlines_in_fields(folder: Path, cut: int) -> None:
    data = b'a,b\n1,"x,y"\n2,z\n\n3,\n'
    stream_format = StreamFormat.csv_format(multiline=False, types={"a": int})
    source = file_source(folder / "n.csv", data, cut, stream_format)
    expected = [{"a": 1, "b": "x,y"}, {"a": 2, "b": "z"}, {"a": 3, "b": ""}]
    assert read_all(source, Budget(1, 1 << 20, 0)) == expected


@pytest.mark.parametrize("cut", [6, 1000])
def test_a_broken_promise_about_newlines_is_an_error(folder: Path, cut: int) -> None:
    data = b'a,b\n1,"x\ny"\n2,z\n'
    source = file_source(folder / "p.csv", data, cut, StreamFormat.csv_format(multiline=False))
    with pytest.raises(JobExecutionError, match="multiline=True"):
        read_all(source, Budget(100, 1 << 20, 0))


def test_columns_follow_the_names_in_each_header(folder: Path) -> None:
    (folder / "many").mkdir(exist_ok=True)
    (folder / "many" / "1.csv").write_text("a,b,c\n1,2,3\n")
    (folder / "many" / "2.csv").write_text('\ufeff"c",a,b\n6,4,5\n')
    stream_format = StreamFormat.csv_format(columns=["c", "a"])
    source = FileSource.for_record_stream_format(stream_format, str(folder / "many")).build()
    assert read_all(source, Budget(9, 999, 0)) == [{"c": "3", "a": "1"}, {"c": "6", "a": "4"}]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b\n1\n", {}, "1 fields instead of 2"),
        ("a,b\n1,x\n", {"types": {"b": int}}, "column 'b' is 'x', which int refuses"),
        ("a,b\n", {"columns": ["z"]}, "no column 'z'; its header names a, b"),
        ("a,b\n", {"types": {"z": int}}, "the column 'z'"),
    ],
)
def test_csv_errors(folder: Path, text: str, options: dict[str, Any], message: str) -> None:
    source = file_source(folder / "e.csv", text.encode(), 100, StreamFormat.csv_format(**options))
    with pytest.raises(JobExecutionError, match=message):
        read_all(source, Budget(9, 999, 0))


def test_csv_without_header_needs_names() -> None:
    with pytest.raises(ProgramError, match="columns="):
        StreamFormat.csv_format(header=False)


def test_a_function_makes_records(folder: Path) -> None:
    stream_format = StreamFormat.csv_format(records=lambda row: row["a"] + row["b"])
    source = file_source(folder / "f.csv", b"a,b\n1,2\n", 100, stream_format)
    assert read_all(source, Budget(9, 999, 0)) == ["12"]


def test_rows_with_names(folder: Path) -> None:
    source = file_source(
        folder / "w.csv", b"a,b\n1,2\n", 100, StreamFormat.csv_format(records="row")
    )
    (row,) = read_all(source, Budget(9, 999, 0))
    assert row.as_dict() == {"a": "1", "b": "2"}


# -- JSON -----------------------------------------------------------------------------------------


def test_json_lines(folder: Path) -> None:
    data = b'{"a": 1}\n\n  \n[NaN, 12345678901234567890123]\n"x"\r\n'
    source = file_source(folder / "j.jsonl", data, 4, StreamFormat.json_line_format())
    first, (nan, large), last = read_all(source, Budget(1, 1 << 20, 0))
    assert (first, large, last) == ({"a": 1}, 12345678901234567890123, "x")
    assert nan != nan


def test_json_lines_that_are_none(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Left out with one warning a file, or handed to a function; `null` is a record."""
    data = b'{"a": 1}\n{oops\nnull\n[1,\n'

    def read(on_error: Any) -> list[Any]:
        line_format = StreamFormat.json_line_format(on_error=on_error)
        source = file_source(folder / "bad.jsonl", data, 100, line_format)
        return read_all(source, Budget(9, 999, 0))

    assert read("skip") == [{"a": 1}, None]
    assert "bad.jsonl at position" in caplog.text
    assert "{oops" in caplog.text
    assert len(caplog.records) == 1
    aside = read(lambda line, error: None if line == "[1," else (line, type(error).__name__))
    assert aside == [{"a": 1}, ("{oops", "JSONDecodeError"), None]
    with pytest.raises(ProgramError, match="on_error='drop'; it must be 'fail', 'skip' or a func"):
        StreamFormat.json_line_format(on_error="drop")


def test_json_errors_name_file_and_line(folder: Path) -> None:
    source = file_source(
        folder / "k.jsonl", b'{"a": 1}\n{oops\n', 100, StreamFormat.json_line_format()
    )
    with pytest.raises(JobExecutionError, match=r"k\.jsonl at position \d is not JSON.*\{oops"):
        read_all(source, Budget(9, 999, 0))
