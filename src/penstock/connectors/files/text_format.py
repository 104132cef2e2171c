"""Lines of text, and JSON on lines."""

from __future__ import annotations

import json
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
from penstock.core.errors import InputError


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
    """

    def __init__(self, charset_name: str = "UTF-8") -> None:
        self.charset = checked_charset(charset_name)

    def create_parser(self) -> RecordParser:
        return _JsonParser("utf-8" if self.needs_transcoding else self.charset)


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
    def __init__(self, charset: str) -> None:
        super().__init__(charset)
        self._decode = msgspec.json.Decoder().decode

    def parse(self, block: Block, max_records: int) -> Parsed:
        parsed = super().parse(block, max_records)
        lines = [line for line in parsed.values if line and not line.isspace()]
        try:
            values = list(map(self._decode, lines))
        except msgspec.DecodeError:
            values = [self._decode_slowly(line, block) for line in lines]
        return Parsed(values, parsed.consumed, parsed.records)

    def _decode_slowly(self, line: str, block: Block) -> Any:
        """Decodes what msgspec refuses and Python's own decoder takes, such as NaN."""
        try:
            return json.loads(line)
        except ValueError as error:
            raise InputError(
                f"a line in the block of {block.where} is not JSON: {error}. "
                f"The line: {line[:200]!r}. Read it with StreamFormat.text_line_format() and parse "
                "it in a function that can put bad lines aside."
            ) from error
