"""Settings with their sources.

A value set in program code outranks the command line, which outranks the file, which outranks the
default. Nothing that was overruled is forgotten: `warnings()` tells of it, of old names, of
settings without effect and of unknown keys.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core import options
from penstock.core.errors import ConfigurationError, ProgramError
from penstock.core.redaction import shown_value
from penstock.core.setting_texts import parse, parse_list, to_text

if TYPE_CHECKING:
    import builtins

_PACKAGE_DIRECTORY = str(Path(__file__).resolve().parents[1])


class Rank(IntEnum):
    """Where a value comes from; the higher rank wins."""

    DEFAULT = 0
    FILE = 1
    COMMAND_LINE = 2
    CODE = 3


@dataclass(frozen=True, slots=True)
class Setting:
    """One value and where it was set."""

    value: str  # Text of the value.
    rank: Rank  # Kind of source.
    source: str  # The source as users read it: `wordcount.py:14`, `-D`, `conf/config.yaml:12`.
    given_key: str  # The key as it was written, which may be an old name.

    def __str__(self) -> str:
        return f"code {self.source}" if self.rank is Rank.CODE else self.source


class Configuration:
    """Keys and values, every value with its source."""

    def __init__(self, other: Configuration | None = None) -> None:
        self._layers: dict[str, dict[Rank, Setting]] = {}
        if other is not None:
            self.add_all(other)

    @classmethod
    def from_dict(cls, map: dict[str, str]) -> Configuration:
        """Makes a configuration of keys and values set by the program."""
        configuration = cls()
        for key, value in map.items():
            configuration.set_string(key, value if isinstance(value, str) else to_text(value))
        return configuration

    # ---- setting ----

    def set(self, key: Any, value: Any) -> Configuration:
        """Sets a value of any kind; `key` may be a ConfigOption."""
        return self._set_code(getattr(key, "key", key), to_text(value))

    def set_string(self, key: str, value: str) -> Configuration:
        return self._set_code(key, value)

    def set_integer(self, key: str, value: int) -> Configuration:
        return self._set_code(key, to_text(value))

    def set_boolean(self, key: str, value: bool) -> Configuration:
        return self._set_code(key, to_text(value))

    def set_float(self, key: str, value: float) -> Configuration:
        return self._set_code(key, to_text(float(value)))

    def set_bytearray(self, key: str, value: bytearray) -> Configuration:
        return self._set_code(key, bytes(value).decode("latin-1"))

    def _set_code(self, key: str, value: str) -> Configuration:
        self.put(key, value, Rank.CODE, calling_line())
        return self

    def put(self, key: str, value: str, rank: Rank, source: str) -> None:
        """Sets a value with its source; today's name of a key wins over an old one."""
        if not isinstance(key, str) or not key:
            raise ProgramError(f"a configuration key is a text that is not empty, not {key!r}.")
        if not isinstance(value, str):
            raise ProgramError(
                f"{key} was set to {value!r} of type {type(value).__name__} as a text; use the "
                "setter of that type, for example set_integer()."
            )
        for name, text in options.translate(key, value).items():
            layers = self._layers.setdefault(name, {})
            present = layers.get(rank)
            is_old = key != name
            if is_old and present is not None and present.given_key == name:
                continue
            layers[rank] = Setting(text, rank, source, key)

    # ---- getting ----

    def setting(self, key: str) -> Setting | None:
        """Returns the value that counts with its source; the default if nothing was set."""
        name = options.canonical_key(key)
        layers = self._layers.get(name)
        if layers:
            ranks = sorted(layers, reverse=True)
            if ranks[0] is Rank.CODE and len(ranks) > 1 and self._ignores_code:
                return layers[ranks[1]]
            return layers[ranks[0]]
        option = options.OPTIONS.get(name)
        if option is None or option.default is None:
            return None
        return Setting(option.default, Rank.DEFAULT, "default", name)

    @property
    def _ignores_code(self) -> bool:
        layers = self._layers.get("penstock.config.ignore-code-overrides", {})
        rank = max((rank for rank in layers if rank is not Rank.CODE), default=None)
        return rank is not None and layers[rank].value.strip().lower() == "true"

    def get(self, option: Any) -> Any:
        """Returns the value of a ConfigOption, or its default."""
        setting = self._layers.get(options.canonical_key(option.key))
        if not setting:
            return option.default
        return self.read(option.key, option.kind)

    def read(self, key: str, kind: str | None = None) -> Any:
        """Returns a value, read as its kind; None when it is neither set nor has a default."""
        setting = self.setting(key)
        if setting is None:
            return None
        option = options.OPTIONS.get(options.canonical_key(key))
        kind = kind or (option.kind if option else "string")
        try:
            return parse(
                setting.value, kind, options.canonical_key(key), option.choices if option else ()
            )
        except ConfigurationError as error:
            raise ConfigurationError(f"{error} It was set by {setting}.") from None

    def _read_or(self, key: str, kind: str, default: Any) -> Any:
        # A default given by the caller outranks that of the registry, as in PyFlink.
        if default is not None and not self._layers.get(options.canonical_key(key)):
            return default
        return self.read(key, kind)

    def get_string(self, key: str, default_value: Any = None) -> Any:
        return self._read_or(key, "string", default_value)

    def get_integer(self, key: str, default_value: Any = None) -> Any:
        return self._read_or(key, "integer", default_value)

    def get_boolean(self, key: str, default_value: Any = None) -> Any:
        return self._read_or(key, "boolean", default_value)

    def get_float(self, key: str, default_value: Any = None) -> Any:
        return self._read_or(key, "float", default_value)

    def get_bytearray(self, key: str, default_value: Any = None) -> Any:
        text = self._read_or(key, "string", None)
        return default_value if text is None else bytearray(text.encode("latin-1"))

    def get_enum(self, key: str) -> str | None:
        """Returns one of the option's choices, or None."""
        value: str | None = self.read(key, "enum")
        return value

    def get_duration_ms(self, key: str, default_ms: int | None = None) -> Any:
        """Returns a span in milliseconds; None when it is neither set nor has a default."""
        return self._read_or(key, "duration", default_ms)

    def get_size_bytes(self, key: str, default_bytes: int | None = None) -> Any:
        """Returns a size in bytes; None when it is neither set nor has a default."""
        return self._read_or(key, "size", default_bytes)

    def get_list(self, key: str) -> list[str]:
        """Returns the items of a list; empty when it is not set."""
        option = options.OPTIONS.get(options.canonical_key(key))
        is_of_files = option is not None and option.kind == "files"
        value: list[str] = self.read(key, "files" if is_of_files else "list") or []
        return value

    def get_map(self, key: str) -> dict[str, str]:
        """Returns pairs of a map; empty when it is not set."""
        value: dict[str, str] = self.read(key, "map") or {}
        return value

    @staticmethod
    def parse_list_value(value: str) -> list[str]:
        """Returns the items of text such as 'a;b' or '[a, b]'."""
        return parse_list(value) if value else []

    # ---- the whole ----

    def key_set(self) -> builtins.set[str]:
        """Returns the keys that were set, by today's names."""
        return {key for key, layers in self._layers.items() if layers}

    def contains_key(self, key: str) -> bool:
        return bool(self._layers.get(options.canonical_key(key)))

    def to_dict(self) -> dict[str, str]:
        """Returns the values that count of all keys that were set; no defaults."""
        return {key: self._text(key) for key in sorted(self.key_set())}

    def _text(self, key: str) -> str:
        setting = self.setting(key)
        assert setting is not None, "only asked for keys that were set"
        return setting.value

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        target_dict.update(self.to_dict())

    def add_all(self, other: Configuration, prefix: str | None = None) -> Configuration:
        """Takes over the settings of another configuration with their sources."""
        for key, layers in other._layers.items():
            for rank, setting in layers.items():
                if prefix:
                    self.put(prefix + key, setting.value, rank, setting.source)
                else:
                    self._layers.setdefault(key, {})[rank] = setting
        return self

    def remove_config(self, key: str) -> bool:
        """Forgets a key; says whether it was set."""
        return bool(self._layers.pop(options.canonical_key(key), None))

    def settings(self) -> dict[str, Setting]:
        """Returns every setting that counts, defaults included, by key."""
        found = {key: self.setting(key) for key in {*options.OPTIONS, *self.key_set()}}
        return {key: setting for key, setting in sorted(found.items()) if setting is not None}

    def warnings(self) -> list[str]:
        """Returns what a user should be told once, when a job starts."""
        found = []
        for key in sorted(self._layers):
            layers = self._layers[key]
            for setting in layers.values():
                if setting.given_key != key and setting.given_key in options.DEPRECATED:
                    found.append(
                        f"{setting.given_key} ({setting}) is an old name; it sets {key} = "
                        f"{shown_value(key, setting.value)}. Write the new name."
                    )
            said = options.remark(key)
            if said:
                found.append(f"{key} ({max(layers.values(), key=_rank)}) {said}")
            found.extend(self._overruled(key, layers))
        return found

    def _overruled(self, key: str, layers: dict[Rank, Setting]) -> Iterable[str]:
        code = layers.get(Rank.CODE)
        others = sorted((s for s in layers.values() if s.rank is not Rank.CODE), key=_rank)
        if code is None or not others or others[-1].value == code.value:
            return
        if self._ignores_code:
            ending = "The configuration wins (penstock.config.ignore-code-overrides is true)."
        else:
            ending = (
                "Code wins. Remove the call, or pass -D penstock.config.ignore-code-overrides=true "
                "to let the configuration win."
            )
        set_to, instead_of = (shown_value(key, each.value) for each in (code, others[-1]))
        yield (
            f"{key}: the program sets '{set_to}' ({code.source}), {others[-1].source} says "
            f"'{instead_of}'. {ending}"
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.to_dict().items())))

    def __str__(self) -> str:
        return f"{{{', '.join(f'{key}={value}' for key, value in self.to_dict().items())}}}"

    def __repr__(self) -> str:
        pairs = (f"{key}={value!r}" for key, value in self.to_dict().items())
        return f"Configuration({', '.join(pairs)})"


class AsSettings:
    """Something that a program says, as the settings that it stands for."""

    def __init__(self, settings: dict[str, str]) -> None:
        self.settings = settings

    def put_into(self, configuration: Configuration) -> None:
        for key, value in self.settings.items():
            configuration.set(key, value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.settings == self.settings

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.settings.items())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.settings})"


def _rank(setting: Setting) -> Rank:
    return setting.rank


def calling_line() -> str:
    """Returns `file:line` of the innermost frame outside of Penstock."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE_DIRECTORY):
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def import_path(file: str) -> str:
    """Returns what `sys.path` needs for an item of `python.files`.

    That is an archive or a directory of modules itself; for a module or a package its directory.
    """
    path = Path(file)
    is_archive = path.suffix in (".zip", ".egg", ".whl")
    holds_modules = path.is_dir() and not (path / "__init__.py").exists()
    return str(path if is_archive or holds_modules else path.parent)


def checked_number(value: int, what: str, least: int, most: int | None = None) -> int:
    """Returns a whole number within bounds that a program has set.

    Raises:
        ProgramError: It is none; the text says what was set.
    """
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number and value >= least and (most is None or value <= most):
        return value
    bounds = f"of at least {least}" if most is None else f"from {least} to {most}"
    raise ProgramError(f"{what} was set to {value!r}; it must be a whole number {bounds}.")
