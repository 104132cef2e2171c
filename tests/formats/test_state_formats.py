"""Files of state, frozen: format 1 was pickled, format 2 is data; later releases read both."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.core.clock import EpochClock
from penstock.core.file_area import FileArea
from penstock.core.handles import FileHandle, KeyedStateVersion
from penstock.core.row import Row
from penstock.core.types import Types
from penstock.operators.windows.windows import TimeWindow
from penstock.state.backend import create_backend
from penstock.state.descriptors import ValueStateDescriptor
from penstock.state.operator_codec import decode_logic
from penstock.state.pickles import Pickles
from penstock.state.reader import read_entries

STATE = json.loads((Path(__file__).parent / "v1" / "state.json").read_text())
WINDOW = TimeWindow(0, 60_000)
FORMATS = ["format 1", "format 2"]
BACKENDS = ["hashmap", "rocksdb"]

# (state, kind, key, namespace): what a person finds who reads how the files were made.
EXPECTED: dict[tuple[Any, ...], Any] = {
    ("count", "value", "a", None): 4,
    ("count", "value", ("t", 2), None): 3,
    ("count", "value", "a", WINDOW): 10,
    ("person", "value", "a", None): Row(name="Ann", age=30),
    ("last", "list", "a", None): [(1, "x"), (2, "y"), (3, "z")],
    ("seen", "map", "a", None): [("p", 1.5)],
    ("timed", "value", "a", None): "soon",
    ("undeclared", "value", "a", None): {"any": (1, 2)},
    ("", "event_timer", "a", WINDOW): [59_999],
    ("", "event_timer", "b", None): [99],
    ("", "processing_timer", 7, None): [5],
}


def of_json(data: Any) -> Any:
    if isinstance(data, dict) and data.keys() == {"base64"}:
        return base64.b64decode(data["base64"])
    if isinstance(data, dict):
        return {key: of_json(part) for key, part in data.items()}
    return [of_json(part) for part in data] if isinstance(data, list) else data


def version_of(form: str, backend: str) -> KeyedStateVersion:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    fields = of_json(STATE[form][backend])
    for name in ("base", "deltas"):
        fields[name] = tuple(FileHandle(**handle) for handle in fields[name])
    return KeyedStateVersion(**{**fields, "delta_ids": tuple(fields["delta_ids"])})


def entries_of(version: KeyedStateVersion, area: FileArea, pickles: Pickles) -> dict[Any, Any]:
    found: dict[Any, Any] = {}
    for state, kind, key, ns, value in read_entries(version, area, pickles):
        place = (state, kind, key, ns)
        if kind == "value":
            found[place] = value
        elif kind == "list":
            found[place] = found.get(place, []) + list(value)
        else:
            found[place] = [*found.get(place, []), value]
    return found


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_keyed_state(form: str, backend: str, tmp_path: Path) -> None:
    found = entries_of(version_of(form, backend), FileArea(tmp_path), Pickles.ALLOW)
    assert found == EXPECTED
    assert {place: type(value) for place, value in found.items()} == {
        place: type(value) for place, value in EXPECTED.items()
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_format_2_without_code_of_its_pickles(backend: str, tmp_path: Path) -> None:
    found = entries_of(version_of("format 2", backend), FileArea(tmp_path), Pickles.OPAQUE)
    assert found == EXPECTED


@pytest.mark.parametrize("backend", BACKENDS)
def test_format_1_becomes_format_2(backend: str, tmp_path: Path) -> None:
    """A job that declares types goes on from pickled state; what it writes is data."""
    area = FileArea(tmp_path)
    state = create_backend(backend).create_state(0, 127, 128, area, EpochClock(), "op")
    count = state.get_state(ValueStateDescriptor("count", Types.LONG()))
    state.restore((version_of("format 1", backend),))
    state.key = "a"
    assert count.value() == 4
    count.update(5)
    version = state.commit("next")
    found = entries_of(version, area, Pickles.ALLOW)
    assert found == {**EXPECTED, ("count", "value", "a", None): 5}


@pytest.mark.parametrize("form", FORMATS)
def test_what_operators_keep(form: str) -> None:
    data = of_json(STATE[form]["logic"])
    found = decode_logic(data, Pickles.ALLOW, "a file")
    assert found.watermark == 41
    assert found.logic == {"watermark": 41, "generator": None}
    assert found.operator_state == {
        "offsets": ("split", [5, 6]),
        "all": ("union", ["x"]),
        "rules": ("broadcast", {"r": 1}),
    }
    assert found.valves == [(42, False, False, [("0", 42, False, True, False)])]
    if form == "format 2":
        assert decode_logic(data, Pickles.REFUSE, "a file") == found
