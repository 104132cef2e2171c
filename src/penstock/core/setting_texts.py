"""Values of settings as text, as a configuration file would hold them.

Items of lists and pairs of maps are put into quotes as in Flink, where they would not be read as
they were written: single or double ones around all of the item, or around what follows a colon in
it. A quote between quotes is doubled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from penstock.core.errors import ConfigurationError, ProgramError
from penstock.core.times import parse_bytes, parse_millis


def to_text(value: Any) -> str:
    """Returns the text of a value."""
    if value is None:
        raise ProgramError("None is no value of a setting; remove_config(key) forgets one.")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ";".join(_quoted(to_text(item), ",;") for item in value)
    if isinstance(value, dict):
        pairs = ((str(key), to_text(item)) for key, item in value.items())
        return ",".join(f"{_quoted(key, ',;:')}:{_quoted(item, ',;')}" for key, item in pairs)
    return str(value)


def _quoted(text: str, marks: str) -> str:
    """Returns an item in Flink's quotes if it would not be read as it is."""
    is_plain = text == text.strip() and text[:1] not in ("", "'", '"', "[", "{")
    if is_plain and not re.search(rf"""[{marks}]|:\s*['"]""", text):
        return text
    return "'" + text.replace("'", "''") + "'"


def _unquoted(text: str) -> str:
    text = text.strip()
    quote, inner = text[:1], text[1:-1]
    is_quoted = len(text) > 1 and quote in "'\"" and text.endswith(quote)
    if not is_quoted or quote in inner.replace(2 * quote, ""):
        return text
    return inner.replace(2 * quote, quote)


_IN_QUOTES: Final = r"""\s*(?:'(?:[^']|'')*'|"(?:[^"]|"")*")\s*"""


def _items(text: str, marks: str) -> Iterator[str]:
    """Cuts a text at marks that are not in quotes; these begin at an item or behind a colon."""
    part = rf"(?:{_IN_QUOTES}(?=[{marks}:]|\Z)|[^{marks}:]*)"
    for item in re.findall(rf"({part}(?::{part})*)(?:[{marks}]|\Z)", text):
        if item.strip():
            yield item.strip()


def parse(text: str, kind: str, key: str, choices: tuple[str, ...] = ()) -> Any:
    """Returns `text` as a value of a kind.

    Raises:
        ConfigurationError: It is none.
    """
    if kind == "enum":
        return _parse_enum(text, key, choices)
    if kind in _SPANS:
        try:
            return _SPANS[kind](text, key)
        except ProgramError as error:
            raise ConfigurationError(str(error)) from None
    parser, wanted = _PARSERS.get(kind, (_as_is, "a text"))
    try:
        return parser(text)
    except (ValueError, KeyError):
        raise ConfigurationError(f"{key} is '{text}', but it must be {wanted}.") from None


def _as_is(text: str) -> str:
    return text


def _parse_boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _parse_enum(text: str, key: str, choices: tuple[str, ...]) -> str:
    for choice in choices:
        if _normalized(choice) == _normalized(text):
            return choice
    raise ConfigurationError(f"{key} is '{text}', but it must be one of {', '.join(choices)}.")


def parse_list(text: str, marks: str = ";") -> list[str]:
    """Returns the items of 'a;b' (Flink's old form) or of '[a, b]' (YAML's)."""
    stripped = text.strip()
    is_yaml = stripped.startswith("[") and stripped.endswith("]")
    items = _items(stripped[1:-1], ",") if is_yaml else _items(stripped, marks)
    return list(map(_unquoted, items))


def parse_files(text: str) -> list[str]:
    """Returns the items of a list of files, which Flink separates by commas."""
    return parse_list(text, ",;")


def parse_map(text: str) -> dict[str, str]:
    """Returns the pairs of 'a:1,b:2' or '{a: 1, b: 2}'."""
    stripped = text.strip()
    if stripped.startswith("{") and stripped.endswith("}"):
        stripped = stripped[1:-1]
    pairs = {}
    for item in _items(stripped, ",;"):
        # Flink puts quotes around a pair and, doubled, around its value.
        found = _PAIR.fullmatch(item) or _PAIR.fullmatch(_unquoted(item))
        if found is None:
            raise ValueError(item)
        pairs[_unquoted(found[1])] = _unquoted(found[2])
    return pairs


_PAIR: Final = re.compile(rf"({_IN_QUOTES}(?=:)|(?!['\"])[^:]*):(.*)", re.DOTALL)
_PARSERS: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "integer": (int, "a whole number"),
    "float": (float, "a number"),
    "boolean": (_parse_boolean, "true or false"),
    "list": (parse_list, "a list such as a;b"),
    "files": (parse_files, "a list such as a.py,b.py"),
    "map": (parse_map, "pairs such as a:1,b:2"),
}
_SPANS: Final[dict[str, Callable[[str, str], int]]] = {
    "duration": parse_millis,
    "size": parse_bytes,
}


def _normalized(value: str) -> str:
    """Returns an enum's text without case and with `_` for `-`."""
    return value.strip().upper().replace("-", "_")
