"""Names of side outputs."""

from __future__ import annotations

import pickle

import pytest

from penstock.core.errors import ProgramError
from penstock.operators.results import OutputTag


def test_tags_are_equal_by_their_id():
    assert OutputTag("a") == OutputTag("a", "any type")
    assert len({OutputTag("a"), OutputTag("a"), OutputTag("b")}) == 2
    copy = pickle.loads(pickle.dumps(OutputTag("a", [1])))
    assert (copy.tag_id, copy.type_info) == ("a", [1])
    for bad in ("", None, 5):
        with pytest.raises(ProgramError, match="needs a name that is not empty"):
            OutputTag(bad)


def test_a_tag_that_is_only_unpickled_is_noticed():
    data = pickle.dumps(OutputTag("late"))
    OutputTag.in_use = False
    try:
        pickle.loads(data)
        assert OutputTag.in_use
    finally:
        OutputTag.in_use = True
