"""Between the text of a setting and its value."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from penstock.core.duration import parse_bytes, parse_millis
from penstock.core.errors import ConfigurationError, ProgramError
from penstock.core.options import normalized


def import_path(file: str) -> str:
    """Returns what `sys.path` needs for an item of `python.files`.

    That is an archive or a directory of modules itself; for a module or a package its directory.
    """
    path = Path(file)
    is_archive = path.suffix in (".zip", ".egg", ".whl")
    holds_modules = path.is_dir() and not (path / "__init__.py").exists()
    return str(path if is_archive or holds_modules else path.parent)


def to_text(value: Any) -> str:
    """Returns a value as a configuration file would hold it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ";".join(map(to_text, value))
    if isinstance(value, dict):
        return ",".join(f"{key}:{to_text(item)}" for key, item in value.items())
    return str(value)


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
        if normalized(choice) == normalized(text):
            return choice
    raise ConfigurationError(f"{key} is '{text}', but it must be one of {', '.join(choices)}.")


def parse_list(text: str) -> list[str]:
    """Returns the items of 'a;b' (Flink's old form) or of '[a, b]' (YAML's)."""
    stripped = text.strip()
    if stripped.startswith("[") and stripped.endswith("]"):
        parts = stripped[1:-1].split(",")
    else:
        parts = stripped.split(";")
    return [part.strip().strip("'\"") for part in parts if part.strip()]


def parse_map(text: str) -> dict[str, str]:
    """Returns the pairs of 'a:1,b:2' or '{a: 1, b: 2}'."""
    pairs = {}
    for part in re.split(r"[,;]", text.strip().strip("{}")):
        if not part.strip():
            continue
        name, colon, value = part.partition(":")
        if not colon:
            raise ValueError(part)
        pairs[name.strip().strip("'\"")] = value.strip().strip("'\"")
    return pairs


_PARSERS: Final[dict[str, tuple[Callable[[str], Any], str]]] = {
    "integer": (int, "a whole number"),
    "float": (float, "a number"),
    "boolean": (_parse_boolean, "true or false"),
    "list": (parse_list, "a list such as a;b"),
    "map": (parse_map, "pairs such as a:1,b:2"),
}
_SPANS: Final[dict[str, Callable[[str, str], int]]] = {
    "duration": parse_millis,
    "size": parse_bytes,
}
