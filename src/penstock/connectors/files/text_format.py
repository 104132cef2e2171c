"""Lines of text, and JSON on lines."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from penstock.connectors.files.formats import (
    Block,
    Parsed,
    RecordParser,
    StreamFormat,
    checked_charset,
    size_before,
)
from penstock.core.errors import InputError, ProgramError

_log = logging.getLogger("penstock.files")


class TextLineFormat(StreamFormat):
    r"""Lines end with `\n` or `\r\n`; the last one may lack it.

    Bytes that the charset does not know become U+FFFD, as in Java's readers. A byte order mark at
    the beginning of the file is not part of the first line.

    Args:
        charset_name: Any charset of Python.
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        self.charset = checked_charset(charset_name)

    def create_parser(self) -> RecordParser:
        return _LineParser("utf-8" if self.needs_transcoding else self.charset)


class JsonLineFormat(StreamFormat):
    """One JSON document on each line; numbers, strings, lists and dicts of Python.

    Args:
        charset_name: Any charset of Python.
        on_error: What becomes of a line that is not JSON; see `StreamFormat.json_line_format`.
    """

    def __init__(
        self,
        charset_name: str = "UTF-8",
        *,
        on_error: str | Callable[[str, Exception], Any] = "fail",
    ) -> None:
        self.charset = checked_charset(charset_name)
        if on_error not in ("fail", "skip") and not callable(on_error):
            raise ProgramError(
                f"json_line_format() got on_error={on_error!r:.80}; it must be 'fail', 'skip' or a "
                "function (line, error) -> record, or None to leave the line out."
            )
        self.on_error = on_error

    def create_parser(self) -> RecordParser:
        return _JsonParser("utf-8" if self.needs_transcoding else self.charset, self.on_error)


class _LineParser(RecordParser):
    def __init__(self, charset: str) -> None:
        self._charset = charset

    def parse(self, block: Block, max_records: int) -> Parsed:
        data = block.data
        text = str(data, self._charset, "replace")
        lines = text.split("\n", max_records)
        consumed = len(data)
        if len(lines) > max_records:
            rest = lines.pop()
            if text.isascii():
                consumed -= len(rest)
            else:
                # To encode the rest again would not do: what was replaced comes back longer.
                consumed = size_before(data, rest.count("\n"))
        elif not lines[-1]:
            lines.pop()
        if "\r" in text:
            lines = [line[:-1] if line.endswith("\r") else line for line in lines]
        return Parsed(lines, consumed, len(lines))


class _JsonParser(_LineParser):
    def __init__(self, charset: str, on_error: str | Callable[[str, Exception], Any]) -> None:
        super().__init__(charset)
        self._decode = msgspec.json.Decoder().decode
        self._on_error = on_error
        self._warned = False

    def parse(self, block: Block, max_records: int) -> Parsed:
        parsed = super().parse(block, max_records)
        lines = [line for line in parsed.values if line and not line.isspace()]
        try:
            values = list(map(self._decode, lines))
        except msgspec.DecodeError:
            values = [value for line in lines for value in self._decode_slowly(line, block)]
        return Parsed(values, parsed.consumed, parsed.records)

    def _decode_slowly(self, line: str, block: Block) -> tuple[Any, ...]:
        """Decodes what msgspec refuses and Python's own decoder takes, such as NaN."""
        try:
            return (json.loads(line),)
        except ValueError as error:
            text = (
                f"a line in the block of {block.where} is not JSON: {error}. Line: {line[:200]!r}"
            )
            if self._on_error == "fail":
                raise InputError(
                    f"{text}. To go on without such lines, or with what a function makes of them, "
                    "use StreamFormat.json_line_format(on_error=...)."
                ) from error
            if callable(self._on_error):
                value = self._on_error(line, error)
                return () if value is None else (value,)
            if not self._warned:
                self._warned = True
                _log.warning("%s. It is left out, and so are others of this file.", text)
            return ()
