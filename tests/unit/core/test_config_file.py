"""Configuration files: YAML 1.2's spelling, duplicate keys, the old flat form."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.core.config_file import (
    COMMAND_LINE_VARIABLE,
    find_file,
    load_configuration,
    load_file,
)
from penstock.core.configuration import Configuration
from penstock.core.errors import ConfigurationError

if TYPE_CHECKING:
    from pathlib import Path


def loaded(directory: Path, text: str, name: str = "config.yaml") -> Configuration:
    path = directory / name
    path.write_text(text)
    config = Configuration()
    load_file(path, config)
    return config


def test_nested_and_dotted_keys(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "state:\n  backend:\n    type: rocksdb\nexecution.checkpointing:\n  interval: 10 s\n"
        "rest.port: 8082\n",
    )
    assert config.to_dict() == {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "10 s",
        "rest.port": "8082",
    }
    assert str(config.setting("state.backend.type")) == f"{tmp_path.name}/config.yaml:3"


@pytest.mark.parametrize(
    "text", ["on", "off", "yes", "no", "1:30", "0123", "2024-01-01", "0x10", "1_000", "1e3", "Y"]
)
def test_values_keep_their_spelling(tmp_path: Path, text: str) -> None:
    assert loaded(tmp_path, f"a: {text}").get_string("a") == text


@pytest.mark.parametrize(
    ("text", "is_set"), [("", False), ("~", False), ("null", False), ('""', True)]
)
def test_null_is_not_set(tmp_path: Path, text: str, is_set: bool) -> None:
    assert loaded(tmp_path, f"a: {text}").contains_key("a") is is_set


def test_keys_that_look_like_booleans_stay_text(tmp_path: Path) -> None:
    assert loaded(tmp_path, "on: x\n1: y").to_dict() == {"on": "x", "1": "y"}


def test_lists_and_maps(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "python.files: [a.py, 'b;c.py']\npipeline.global-job-parameters:\n  a: 1\n  b: x:1,y:2\n",
    )
    assert config.get_list("python.files") == ["a.py", "b;c.py"]
    assert config.get_map("pipeline.global-job-parameters") == {"a": "1", "b": "x:1,y:2"}


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a: 1\nb: 2\na: 3\n", "lines 1 and 3"),
        ("a:\n  b: 1\n  b: 2\n", "lines 2 and 3"),
        ("a:\n  b: 1\na.b: 2\n", "lines 2 and 3"),
        ("a:\n  b: 1\na:\n  c: 2\n", "lines 1 and 3"),
    ],
)
def test_duplicate_keys_name_both_lines(tmp_path: Path, text: str, lines: str) -> None:
    with pytest.raises(ConfigurationError, match=f"twice, in {lines}"):
        loaded(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    ["a: [1", "- a\n- b", "a: !!python/object/apply:os.system [ls]\n? [b]\n: c", "just text"],
)
def test_what_is_no_configuration(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"config\.yaml"):
        loaded(tmp_path, text)


def test_tags_make_no_objects(tmp_path: Path) -> None:
    config = loaded(tmp_path, "a: !!python/object/apply:os.getcwd []")
    assert config.to_dict() == {"a": ""}


def test_aliases_cannot_explode(tmp_path: Path) -> None:
    levels = ["l0: &l0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 10)}]" for n in range(1, 9)]
    with pytest.raises(ConfigurationError, match="more than 100,000 values"):
        loaded(tmp_path, "\n".join(levels))


def test_flat_file(tmp_path: Path) -> None:
    config = loaded(
        tmp_path,
        "# comment\n\nstate.backend: filesystem\nstate.checkpoints.dir: hdfs://a:1/c # where\n",
        "flink-conf.yaml",
    )
    assert config.get_enum("state.backend.type") == "hashmap"
    assert config.get_string("execution.checkpointing.dir") == "hdfs://a:1/c"
    assert str(config.setting("execution.checkpointing.dir")).endswith("flink-conf.yaml:4")
    with pytest.raises(ConfigurationError, match=r":1 is 'a=b', but a line must read 'key: value'"):
        loaded(tmp_path, "a=b", "flink-conf.yaml")
    with pytest.raises(ConfigurationError, match="twice, in lines 1 and 2"):
        loaded(tmp_path, "a: 1\na: 2", "flink-conf.yaml")


def test_where_the_file_is_looked_for(tmp_path: Path) -> None:
    for name in ("own", "flink", "here/conf"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.yaml").touch()
    own, flink, here = tmp_path / "own", tmp_path / "flink", tmp_path / "here"
    both = {"PENSTOCK_CONF_DIR": str(own), "FLINK_CONF_DIR": str(flink)}
    assert find_file(both, here) == own / "config.yaml"
    assert find_file({"FLINK_CONF_DIR": str(flink)}, here) == flink / "config.yaml"
    assert find_file({}, here) == here / "conf" / "config.yaml"
    assert find_file({}, tmp_path) is None
    (own / "flink-conf.yaml").touch()
    assert find_file(both, here) == own / "config.yaml"
    (own / "config.yaml").unlink()
    assert find_file(both, here) == own / "flink-conf.yaml"


def test_command_line_outranks_the_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("rest.port: 1\nparallelism.default: 2\n")
    environment = {"PENSTOCK_CONF_DIR": str(tmp_path), COMMAND_LINE_VARIABLE: '{"rest.port": "9"}'}
    config = load_configuration(environment, tmp_path)
    assert (config.get_integer("rest.port"), config.get_integer("parallelism.default")) == (9, 2)
    assert str(config.setting("rest.port")) == "-D"


@pytest.mark.parametrize("text", ["rest.port=1", '["rest.port"]', '{"rest.port": 1}'])
def test_wrong_command_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"PENSTOCK_DYNAMIC_PROPERTIES is .* JSON object"):
        load_configuration({COMMAND_LINE_VARIABLE: text}, tmp_path)


def test_unreadable_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_bytes(b"a: \xff")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        load_file(tmp_path / "config.yaml", Configuration())
