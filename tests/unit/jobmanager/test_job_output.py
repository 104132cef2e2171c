"""Files of what programs print: read on from a cursor, line by line, within bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.jobmanager.job_directory import bound_file, read_output

if TYPE_CHECKING:
    from pathlib import Path


class Reader:
    """Reads on and on, as a client does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.cursor = ""

    def read(self, max_bytes: int = 100, *, is_complete: bool = False) -> bytes:
        piece = read_output(self.path, self.cursor, max_bytes, is_complete=is_complete)
        self.cursor = piece.cursor
        return piece.data


def test_a_reader_goes_on_where_it_was_with_whole_lines(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "out.txt")
    assert reader.read() == b"", "nothing was printed yet"
    with reader.path.open("ab", buffering=0) as writer:
        writer.write(b"one\ntw")
        assert reader.read() == b"one\n"
        assert reader.read() == b""
        writer.write(b"o\nthree")
        assert reader.read() == b"two\n"
    assert reader.read() == b""
    assert reader.read(is_complete=True) == b"three", "the last line needs no end"
    assert reader.read(is_complete=True) == b""


def test_a_line_that_is_longer_than_a_piece_comes_in_pieces(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "out.txt")
    reader.path.write_bytes(b"0123456789\nab")
    assert [reader.read(4) for _ in range(4)] == [b"0123", b"4567", b"89\n", b""]
    assert reader.read(4, is_complete=True) == b"ab"


def test_the_file_of_another_job_manager_is_read_from_its_beginning(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "out.txt")
    reader.path.write_bytes(b"a\n")
    assert reader.read() == b"a\n"
    other = tmp_path / "other.txt"
    other.write_bytes(b"b\nc\n")
    other.replace(reader.path)
    assert reader.read() == b"b\nc\n"


def test_a_long_file_is_moved_aside_once_and_its_reader_misses_nothing(tmp_path: Path) -> None:
    reader = Reader(tmp_path / "out.txt")
    bound_file(reader.path, 10)
    with reader.path.open("ab", buffering=0) as writer:
        writer.write(b"01234567\n\n")
        bound_file(reader.path, 10)
        assert reader.path.read_bytes() == b"01234567\n\n"
        assert reader.read(4) == b"0123"
        writer.write(b"x\n")
        bound_file(reader.path, 10)
        assert reader.path.read_bytes() == b""
        # A writer that appends goes on at the new beginning.
        writer.write(b"y\n")
    assert reader.path.read_bytes() == b"y\n"
    assert (tmp_path / "out.1.txt").read_bytes() == b"01234567\n\nx\n"
    assert [reader.read(4) for _ in range(4)] == [b"4567", b"\n\nx\n", b"y\n", b""]
