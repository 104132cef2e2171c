"""State as a DataFrame of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.common import Row, Types
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.snapshots import SavepointReader, SavepointWriter
from penstock.spark.session import get_session

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark


def test_state_as_a_dataframe(tmp_path: Path) -> None:
    person = Types.ROW_NAMED(["name", "age"], [Types.STRING(), Types.INT()])
    path = (
        SavepointWriter.new_savepoint()
        .with_keyed_state(
            "people",
            ValueStateDescriptor("person", person),
            [(1, Row(name="Ann", age=30)), (2, Row(name="Bob", age=None))],
        )
        .with_keyed_state(
            "people", MapStateDescriptor("seen", Types.STRING(), Types.LONG()), [(1, {"x": 5})]
        )
        .write(str(tmp_path))
    )
    spark = get_session("frames", "local[2,4]", {})
    with SavepointReader.read(path) as snapshot:
        people = snapshot.to_spark(spark, "people", "person")
        assert sorted(people.select("key", "value.name", "value.age").collect()) == [
            (1, "Ann", 30),
            (2, "Bob", None),
        ]
        seen = snapshot.to_spark(spark, "people", "seen").collect()
    assert [tuple(row) for row in seen] == [(1, "x", 5)]
