"""Notebook views hold what was set, escape it, and hide secrets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from penstock.common import Row, Types
from penstock.core.drawing import Box, drawing
from penstock.core.errors import ProgramError
from penstock.datastream import OutputTag, StreamExecutionEnvironment

if TYPE_CHECKING:
    from pathlib import Path

SVG = "{http://www.w3.org/2000/svg}"


def test_drawing_of_a_stream(env: StreamExecutionEnvironment) -> None:
    left = env.from_collection([1]).map(str).name("<script>").uid("left")
    right = env.from_collection([2]).name("right")
    env.from_collection([3]).name("elsewhere")
    joined = left.union(right).key_by(lambda value: value).process(lambda value, ctx: None)
    side = joined.get_side_output(OutputTag("late", Types.STRING())).map(str)
    text = side._repr_html_()
    tree = ElementTree.fromstring(text)
    assert "<script>" not in text
    boxes = [each.findall(f"{SVG}text")[0].text for each in tree.findall(f"{SVG}g")]
    assert boxes == ["Collection Source", "<script>", "right", "KeyedProcess", "Map"]
    assert len(tree.findall(f"{SVG}path")) == 4
    labels = [each.text for each in tree.findall(f"{SVG}text")]
    assert labels == ["key", "key", "late"]


def test_boxes_do_not_overlap(env: StreamExecutionEnvironment) -> None:
    source = env.from_collection([1])
    for _ in range(4):
        source.map(str).print()
    tree = ElementTree.fromstring(env._repr_html_().partition("</table>")[2])
    corners = [
        (each.get("x"), each.get("y"))
        for group in tree.findall(f"{SVG}g")
        for each in group.findall(f"{SVG}rect")
    ]
    assert len(corners) == len(set(corners)) == 9


def test_a_line_that_passes_a_column_crosses_no_box() -> None:
    boxes = {
        "a": Box("a", "", "", 0, []),
        "b": Box("b", "", "", 1, [("a", "")]),
        "c": Box("c", "", "", 2, [("b", ""), ("a", "passes b")]),
    }
    tree = ElementTree.fromstring(drawing("graph", boxes))
    passed = tree.findall(f"{SVG}g/{SVG}rect")[1]
    x, y, width, height = (int(passed.get(name, "")) for name in ("x", "y", "width", "height"))
    line = tree.findall(f"{SVG}path")[-1].get("d", "")
    at = {int(left): int(top) for left, top in re.findall(r"(\d+) (\d+)", line)}
    assert at[x] == at[x + width] > y + height


def test_table_of_settings(env: StreamExecutionEnvironment) -> None:
    env.set_parallelism(4)
    env.get_configuration().set_string("pipeline.name", "<b>")
    env.get_configuration().set_string("penstock.spark.conf.fs.s3a.secret.key", "hunter2")
    text = env._repr_html_()
    assert "<td>parallelism.default</td><td>4</td><td>code test_notebook.py:" in text
    assert "&lt;b&gt;" in text
    assert "hunter2" not in text
    assert "rest.port" not in text


def test_a_job_and_its_checkpoints(env: StreamExecutionEnvironment, tmp_path: Path) -> None:
    env.get_configuration().set_string("execution.checkpointing.interval", "10 ms")
    env.get_configuration().set_string("execution.checkpointing.dir", str(tmp_path / "<b>"))
    env.from_collection([1, 2]).print()
    client = env.execute_async("<script>")
    client.get_job_execution_result().result(200)
    text = client._repr_html_()
    assert "<script>" not in text and "&lt;script&gt;" in text
    assert "<th>state</th><td>FINISHED</td>" in text
    assert "<th>records</th><td>2</td>" in text
    table = client.checkpoints()._repr_html_()
    assert "<td>COMPLETED</td>" in table
    assert "&lt;b&gt;" in table and "<b>" not in table


def test_no_checkpoints(env: StreamExecutionEnvironment) -> None:
    env.from_collection([1]).print()
    client = env.execute_async()
    client.get_job_execution_result().result(200)
    assert "no checkpoint was triggered yet" in client.checkpoints()._repr_html_()
    assert "Checkpoints" not in client._repr_html_()


def test_take_and_show(env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]) -> None:
    numbers = env.from_collection(range(100), Types.INT())
    assert numbers.map(lambda x: x * 2).take(3) == [0, 2, 4]
    numbers.show(2)
    env.from_collection([Row(name="Ada", year=1815), Row(name="Alan", year=1912)]).show()
    env.from_collection([Row("Ada", 1815)]).show()
    env.from_collection([{"a": 1}, {"b": None}]).show()
    assert capsys.readouterr().out.splitlines() == [
        "0",
        "1",
        "name  year",
        "Ada   1815",
        "Alan  1912",
        "<Row('Ada', 1815)>",
        "a  b",
        "1",
        "   None",
    ]


def test_inspect_hands_records_on(
    env: StreamExecutionEnvironment, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []
    stream = env.from_collection([1, 2], Types.INT())
    looked = stream.inspect(seen.append).peek().map(lambda x: x + 1)
    with looked.execute_and_collect() as found:
        assert list(found) == [2, 3]
    assert seen == [1, 2]
    assert stream.inspect().get_type() == Types.INT()
    assert capsys.readouterr().out == "1\n2\n"
    with pytest.raises(ProgramError, match="inspect\\(\\) takes a function of a record"):
        stream.inspect(3)  # type: ignore[arg-type]
