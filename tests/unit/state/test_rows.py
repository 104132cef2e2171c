from __future__ import annotations

import datetime
import decimal
import pickle
import uuid
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.core.keygroups import key_group
from penstock.state.plain_serializer import Pickles, pickle_bytes
from penstock.state.rocksdb import rows
from penstock.state.rocksdb.row_values import RowValues
from penstock.state.rocksdb.rows import (
    RowKeys,
    end_of_prefix,
    frame,
    owner_of,
    stable_bytes,
)

KEYS: list[Any] = [
    *range(-40, 40),
    *(f"key {number}" for number in range(40)),
    "",
    2.5,
    b"bytes",
    ("tuple", 1),
    decimal.Decimal("1.5"),
    datetime.date(2024, 1, 1),
    uuid.UUID(int=7),
]


@pytest.mark.parametrize("maximum", [128, 1000, 32768])
@pytest.mark.parametrize("has_numpy", [True, False])
def test_many_rows_at_once_are_the_same_as_one_by_one(
    maximum: int, has_numpy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not has_numpy:
        monkeypatch.setattr(rows.keygroups, "numpy_if_there", lambda: None)
    made = RowKeys(maximum)
    for keys in (KEYS, list(range(3000)), [str(number) for number in range(3000)]):
        starts = made.of_keys(keys)
        assert starts == [made.of_key(key) for key in keys]
        for key, start in zip(keys, starts, strict=True):
            assert int.from_bytes(start[:2], "big") == key_group(key, maximum)
    assert len(set(made.of_keys(KEYS))) == len(KEYS)


def test_equal_keys_have_one_row() -> None:
    made = RowKeys(128)
    assert (
        made.of_key(1) == made.of_key(True) == made.of_key(1.0) == made.of_key(decimal.Decimal(1))
    )


@pytest.mark.parametrize("ns", [None, ("window", 1)])
@pytest.mark.parametrize("timed", [True, False])
@pytest.mark.parametrize("schema", ["", "STRING"])
def test_rows_say_whose_they_are(ns: Any, timed: bool, schema: str) -> None:
    made = RowKeys(128)
    contents = [(key, 7) if timed else key for key in map(str, KEYS)]
    values = RowValues("value", "state", Pickles.ALLOW, lambda schema: list)
    values.use(schema)
    encoded = values.encode_values(contents, KEYS, ns, timed=timed)
    for key, content, data in zip(KEYS, contents, encoded, strict=True):
        assert data == values.encode(content, key, ns, timed=timed)
        row = made.of_key(key) + frame(b"name") + made.of_namespace(ns)
        owner = owner_of(row, data)
        assert owner == (key, ns)
        assert type(owner[0]) is type(key)
        assert rows.name_of(row) == "name"
        assert bool(data[-1] & rows.IS_TIMED) is timed
        assert values.decode(data) == content
        assert (b"\x80\x05" in data) is (schema == "")


@given(st.binary(min_size=1).filter(lambda data: data.strip(b"\xff")), st.binary())
def test_the_end_of_a_prefix_is_above_all_that_starts_with_it(prefix: bytes, rest: bytes) -> None:
    end = end_of_prefix(prefix)
    assert prefix + rest < end
    assert not end.startswith(prefix)


@given(
    st.recursive(
        st.none() | st.integers() | st.text() | st.floats(allow_nan=False),
        lambda inner: st.tuples(inner, inner),
    )
)
def test_map_keys_have_bytes_that_do_not_depend_on_identity(value: Any) -> None:
    copy = pickle.loads(pickle_bytes(value, "a value"))
    assert stable_bytes(copy) == stable_bytes(value)


def test_no_row_is_a_prefix_of_anothers_state() -> None:
    made = RowKeys(128)
    starts = [
        made.of_key(key) + frame(name) + made.of_namespace(ns)
        for key in ("a", "a1", "1", 1, 11)
        for name in (b"s", b"s1", b"1")
        for ns in (None, 1, 11, "1")
    ]
    for start in starts:
        assert [other for other in starts if other.startswith(start)] == [start]
