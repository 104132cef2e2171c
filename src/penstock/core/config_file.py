"""Reads `config.yaml` and the older flat `flink-conf.yaml`.

PyYAML's own loaders speak YAML 1.1, where `on` is a boolean, `1:30` a number and `2024-01-01` a
date. Here only null is resolved, as YAML 1.2's core schema does; every other value keeps its
spelling, because settings are text until a kind is asked for.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import ConfigurationError
from penstock.core.setting_texts import to_text

COMMAND_LINE_VARIABLE: Final = "PENSTOCK_DYNAMIC_PROPERTIES"
"""Environment variable with the command line's `-D` settings as a JSON object."""

_DIRECTORY_VARIABLES: Final = ("PENSTOCK_CONF_DIR", "FLINK_CONF_DIR")
_LIMIT_NODES: Final = 100_000
_NULL: Final = re.compile(r"~|null|Null|NULL|")


def load_configuration(
    environment: Mapping[str, str] | None = None, working_directory: Path | None = None
) -> Configuration:
    """Returns the settings of the file and of the command line."""
    environment = os.environ if environment is None else environment
    configuration = Configuration()
    path = find_file(environment, working_directory or Path())
    if path is not None:
        load_file(path, configuration)
    load_command_line(environment.get(COMMAND_LINE_VARIABLE, ""), configuration)
    return configuration


def find_file(environment: Mapping[str, str], working_directory: Path) -> Path | None:
    """Returns the configuration file, the old flat one only where there is no new one."""
    directory = next(
        (Path(environment[name]) for name in _DIRECTORY_VARIABLES if environment.get(name)),
        working_directory / "conf",
    )
    for name in ("config.yaml", "flink-conf.yaml"):
        if (directory / name).is_file():
            return directory / name
    return None


def load_command_line(text: str, configuration: Configuration) -> None:
    """Adds `-D` settings, given as a JSON object of texts."""
    if not text:
        return
    try:
        settings = json.loads(text)
    except ValueError:
        settings = None
    if not isinstance(settings, dict) or not all(isinstance(v, str) for v in settings.values()):
        raise ConfigurationError(
            f"{COMMAND_LINE_VARIABLE} is {text!r:.200}; it must be a JSON object of texts, such as "
            '{"rest.port": "8082"}.'
        )
    for key, value in settings.items():
        configuration.put(key, value, Rank.COMMAND_LINE, "-D")


def load_file(path: Path, configuration: Configuration) -> None:
    """Adds the settings of a file.

    Raises:
        ConfigurationError: The file cannot be read; the text names file and line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}.") from None
    shown = f"{path.parent.name}/{path.name}"
    is_flat = path.name == "flink-conf.yaml"
    pairs = _flat_pairs(text, shown) if is_flat else _yaml_pairs(text, shown)
    lines: dict[str, int] = {}
    for key, value, line in pairs:
        if key in lines:
            raise ConfigurationError(
                f"{shown} sets {key} twice, in lines {lines[key]} and {line}. Remove one of them."
            )
        lines[key] = line
        configuration.put(key, value, Rank.FILE, f"{shown}:{line}")


def _flat_pairs(text: str, shown: str) -> Iterator[tuple[str, str, int]]:
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.split("#", 1)[0].strip()
        if not content:
            continue
        key, colon, value = content.partition(": ")
        if not colon or not key.strip() or not value.strip():
            raise ConfigurationError(
                f"{shown}:{number} is '{content}', but a line must read 'key: value'."
            )
        yield key.strip(), value.strip(), number


def _yaml_pairs(text: str, shown: str) -> Iterator[tuple[str, str, int]]:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise ConfigurationError(f"{shown}:{line} is not YAML: {error.problem}.") from None
    except yaml.YAMLError as error:
        raise ConfigurationError(f"{shown} is not YAML: {error}.") from None
    if root is None:
        return
    if not isinstance(root, yaml.MappingNode):
        raise ConfigurationError(f"{shown} must hold keys with values, such as 'rest.port: 8081'.")
    yield from _Walk(shown).pairs(root, "")


class _Walk:
    """Flattens nested mappings to dotted keys; counts nodes, so that aliases cannot explode."""

    def __init__(self, shown: str) -> None:
        self._shown = shown
        self._visited = 0

    def _count(self, node: yaml.Node) -> int:
        self._visited += 1
        line = int(node.start_mark.line) + 1
        if self._visited > _LIMIT_NODES:
            raise ConfigurationError(
                f"{self._shown}:{line}: more than {_LIMIT_NODES:,} values, aliases followed; "
                "write them out, or remove the aliases that contain each other."
            )
        return line

    def pairs(self, node: yaml.MappingNode, prefix: str) -> Iterator[tuple[str, str, int]]:
        seen: dict[str, int] = {}
        for key_node, value_node in node.value:
            line = self._count(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigurationError(f"{self._shown}:{line}: a key must be a plain text.")
            name = str(key_node.value)
            if name in seen:
                raise ConfigurationError(
                    f"{self._shown} sets {prefix}{name} twice, in lines {seen[name]} and {line}. "
                    "Remove one of them."
                )
            seen[name] = line
            if isinstance(value_node, yaml.MappingNode) and prefix + name not in _MAPS:
                yield from self.pairs(value_node, f"{prefix}{name}.")
            elif not _is_null(value_node):
                yield prefix + name, to_text(self._value(value_node)), line

    def _value(self, node: yaml.Node) -> Any:
        self._count(node)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item) for item in node.value]
        if isinstance(node, yaml.MappingNode):
            return {str(key.value): self._value(value) for key, value in node.value}
        return str(node.value)


_MAPS: Final = frozenset({"pipeline.global-job-parameters"})


def _is_null(node: yaml.Node) -> bool:
    return (
        isinstance(node, yaml.ScalarNode)
        and node.style is None
        and _NULL.fullmatch(node.value) is not None
    )
