"""Printed records look as in PyFlink, whose texts these are."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.common import Row, RowKind, Types
from penstock.datastream.sinks import formatter_of

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])


@pytest.mark.parametrize(
    ("type_info", "value", "text"),
    [
        (Types.PICKLED_BYTE_ARRAY(), ("a", 1), "('a', 1)"),
        (Types.STRING(), "a", "a"),
        (Types.INT(), 5, "5"),
        (Types.DOUBLE(), 1.0, "1.0"),
        (Types.BOOLEAN(), True, "true"),
        (Types.BOOLEAN(), False, "false"),
        (PAIR, ("a", 1), "(a,1)"),
        (PAIR, ("a", None), "(a,null)"),
        (Types.TUPLE([PAIR]), (("a", 1),), "((a,1))"),
        (Types.LIST(Types.INT()), [1, 2], "[1, 2]"),
        (Types.MAP(Types.STRING(), Types.INT()), {"a": 1, "b": 2}, "{a=1, b=2}"),
        (Types.ROW([Types.STRING(), Types.INT()]), Row("a", 1), "+I[a,1]"),
        (Types.ROW([Types.INT()]), Row.of_kind(RowKind.DELETE, 1), "-D[1]"),
        (Types.TUPLE([Types.ROW([Types.INT()])]), (Row(1, None),), "(+I[1, null])"),
    ],
)
def test_text_of_records(type_info: Any, value: Any, text: str) -> None:
    assert formatter_of(type_info)(value) == text
