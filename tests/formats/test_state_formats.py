"""Files of state in format 1, frozen: every later release reads exactly this out of them."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from penstock.core.handles import FileHandle, KeyedStateVersion
from penstock.core.row import Row
from penstock.core.times import EpochClock
from penstock.core.types import Types
from penstock.files.area import FileArea
from penstock.operators.windows.windows import TimeWindow
from penstock.state.backend import create_backend, read_entries
from penstock.state.descriptors import ValueStateDescriptor
from penstock.state.operator_snapshot import read_logic
from penstock.state.plain_serializer import Pickles

STATE = json.loads((Path(__file__).parent / "v1" / "state.json").read_text())
WINDOW = TimeWindow(0, 60_000)
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


def handle_of(fields: Any) -> FileHandle:
    return FileHandle(**of_json(fields))


def version_of(backend: str) -> KeyedStateVersion:
    if backend == "rocksdb":
        pytest.importorskip("rocksdict")
    fields = dict(STATE[backend])
    for name in ("base", "deltas"):
        fields[name] = tuple(map(handle_of, fields[name]))
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_keyed_state(backend: str, tmp_path: Path) -> None:
    found = entries_of(version_of(backend), FileArea(tmp_path), Pickles.ALLOW)
    assert found == EXPECTED
    assert {place: type(value) for place, value in found.items()} == {
        place: type(value) for place, value in EXPECTED.items()
    }


@pytest.mark.parametrize("backend", BACKENDS)
def test_keyed_state_without_code_of_its_pickles(backend: str, tmp_path: Path) -> None:
    found = entries_of(version_of(backend), FileArea(tmp_path), Pickles.OPAQUE)
    assert found == EXPECTED


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_job_goes_on_from_it(backend: str, tmp_path: Path) -> None:
    area = FileArea(tmp_path)
    state = create_backend(backend).create_state(0, 127, 128, area, EpochClock(), "op")
    count = state.get_state(ValueStateDescriptor("count", Types.LONG()))
    state.restore((version_of(backend),))
    state.key = "a"
    assert count.value() == 4
    count.update(5)
    version = state.commit("next")
    found = entries_of(version, area, Pickles.ALLOW)
    assert found == {**EXPECTED, ("count", "value", "a", None): 5}


@pytest.mark.parametrize("pickles", [Pickles.ALLOW, Pickles.REFUSE])
def test_what_operators_keep(pickles: Pickles, tmp_path: Path) -> None:
    states = [handle_of(fields) for fields in STATE["states"]]
    (found,) = read_logic([handle_of(STATE["logic"])], [states], FileArea(tmp_path), pickles)
    assert found.watermark == 41
    assert found.logic == {"watermark": 41, "generator": None}
    assert found.operator_state == {
        "offsets": ("split", [5, 6]),
        "all": ("union", ["x"]),
        "rules": ("broadcast", {"r": 1}),
    }
    assert found.schemas == {
        "offsets": "LIST(LONG)",
        "all": "LIST(STRING)",
        "rules": "MAP(STRING, LONG)",
    }
    assert found.valves == [(42, False, False, [("0", 42, False, True, False)])]
