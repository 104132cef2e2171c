"""Files of Avro and ORC: what others wrote is read, and others read what is written."""

from __future__ import annotations

import contextlib
import datetime
import json
import pickle
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as arrow
import pytest
from file_sink_job import at, bulk, write
from pyarrow import orc

from penstock.common import Configuration, Row, Types
from penstock.connectors.file_sink.bulk_outputs import BulkWriterFactory
from penstock.connectors.files.inputs import PLAIN
from penstock.connectors.source import Budget
from penstock.core.errors import InputError, JobExecutionError, ProgramError
from penstock.datastream.formats.avro import (
    AvroBulkWriters,
    AvroFormat,
    AvroInputFormat,
    AvroSchema,
    GenericRecordAvroTypeInfo,
)
from penstock.datastream.formats.orc import OrcBulkWriters, OrcFormat

if TYPE_CHECKING:
    from pathlib import Path

FIELDS = [{"name": "n", "type": "int"}, {"name": "text", "type": ["null", "string"]}]
SCHEMA = AvroSchema.parse_string(json.dumps({"type": "record", "name": "R", "fields": FIELDS}))


def records(path: Path, form: Any, cut: int = 1 << 20, most: int = 7) -> list[Any]:
    """Reads a file by splits, a few records at a time, with a reader for each read."""
    found: list[Any] = []
    [file] = PLAIN.find(str(path), recursive=False, may_be_missing=False)
    form = pickle.loads(pickle.dumps(form))
    for split in form.splits(file, cut, PLAIN):
        position, is_done = split.start, False
        while not is_done:
            reader = form.create_reader(PLAIN)
            with contextlib.closing(reader):
                result = reader.read(split, position, Budget(most, 1 << 30, 0))
            assert len(result.values) <= most
            found += result.values
            position, is_done = result.position, result.finished
    return found


def part(folder: Path) -> Path:
    (found,) = (path for path in folder.rglob("part-*"))
    return found


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_an_avro_file_is_cut_anywhere(tmp_path: Path, codec: str) -> None:
    rows = [{"n": number, "text": None if number % 3 else "é" * 9} for number in range(200)]
    path = tmp_path / "t.avro"
    with path.open("wb") as file:
        fastavro.writer(file, SCHEMA.parsed, rows, codec, sync_interval=150)
    for cut in (97, 333, path.stat().st_size):
        assert records(path, AvroFormat(), cut, most=50) == rows


def test_records_are_read_by_another_schema(tmp_path: Path) -> None:
    with (tmp_path / "t.avro").open("wb") as file:
        fastavro.writer(file, SCHEMA.parsed, [{"n": 1, "text": "a"}])
    more = {"name": "more", "type": "string", "default": "new"}
    wider = {"type": "record", "name": "R", "fields": [FIELDS[0], more]}
    schema = AvroSchema.parse_string(json.dumps(wider))
    assert records(tmp_path / "t.avro", AvroFormat(schema)) == [{"n": 1, "more": "new"}]
    del more["default"]
    schema = AvroSchema.parse_string(json.dumps(wider))
    with pytest.raises(InputError, match=r"t\.avro has another schema than .*more"):
        records(tmp_path / "t.avro", AvroFormat(schema))


def test_files_that_are_none_or_damaged(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_bytes(b"not a file of blocks")
    for form, name in ((AvroFormat(), "Avro"), (OrcFormat(), "ORC")):
        with pytest.raises(InputError, match=rf"/t cannot be read as {name}"):
            records(path, form)
    with path.open("wb") as file:
        fastavro.writer(file, SCHEMA.parsed, [{"n": 1, "text": "a"}] * 50)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match=r"/t is damaged: the block at byte \d+ has no end"):
        records(path, AvroFormat())


def test_avro_of_epochs_is_one_file(tmp_path: Path) -> None:
    sink = bulk(tmp_path, AvroBulkWriters.for_generic_record(SCHEMA))
    committables = write(sink, [{"n": 1, "text": "a"}, Row(n=2, text=None)], 1)
    committables += write(sink, [Row(3, "c"), (4, "d")], 2)
    sink.create_committer().commit(committables, at(2))
    with part(tmp_path).open("rb") as file:
        found = list(fastavro.reader(file))
    assert found == [
        {"n": 1, "text": "a"},
        {"n": 2, "text": None},
        {"n": 3, "text": "c"},
        {"n": 4, "text": "d"},
    ]
    assert records(part(tmp_path), AvroFormat(SCHEMA)) == found


def test_orc_of_epochs_is_one_file(tmp_path: Path) -> None:
    names = ["n", "day", "tags", "of", "inner", "at"]
    inner = Types.ROW_NAMED(["x"], [Types.LONG()])
    kind = Types.ROW_NAMED(
        names,
        [
            *(Types.INT(), Types.SQL_DATE(), Types.LIST(Types.STRING())),
            *(Types.MAP(Types.STRING(), Types.INT()), inner, Types.SQL_TIMESTAMP()),
        ],
    )
    settings = Configuration()
    settings.set_string("orc.compress", "SNAPPY")
    sink = bulk(tmp_path, OrcBulkWriters.for_row_type(kind, settings))
    noon = datetime.datetime.fromisoformat("2026-01-02T12:00:00.000001")
    first = {"n": 1, "day": noon.date(), "tags": ["a"], "of": {"k": 5}, "inner": {"x": 7}}
    rows = [{**first, "at": noon}, dict.fromkeys(names)]
    committables = write(sink, rows[:1], 1) + write(sink, rows[1:], 2)
    sink.create_committer().commit(committables, at(2))
    expected = [{**rows[0], "of": [("k", 5)]}, rows[1]]
    assert orc.read_table(part(tmp_path)).to_pylist() == expected
    assert records(part(tmp_path), OrcFormat()) == expected
    assert records(part(tmp_path), OrcFormat(["inner", "n"], "tuple"))[0] == ({"x": 7}, 1)


def test_refusals(tmp_path: Path) -> None:
    path = tmp_path / "t.orc"
    orc.write_table(arrow.table({"a": [1]}), path)
    configured = Configuration()
    configured.set_string("orc.stripe.size", "1")
    for call, text in (
        (lambda: records(path, OrcFormat(["b"])), "has no column 'b'; it has a"),
        (lambda: BulkWriterFactory.avro("{}"), "need an AvroSchema"),  # type: ignore[arg-type]
        (lambda: BulkWriterFactory.avro(SCHEMA, "zip"), "compressed by 'zip'; choose null"),
        (lambda: AvroInputFormat("x", "{}"), "takes an AvroSchema"),  # type: ignore[arg-type]
        (lambda: OrcBulkWriters.for_row_type(None, configured), "orc.stripe.size; only"),
        (lambda: OrcBulkWriters.for_row_type(None, None, configured), "settings of Hadoop"),
        (
            lambda: OrcBulkWriters.for_row_type(Types.ROW_NAMED(["a"], [Types.BIG_INT()])),
            "no column for BigInteger",
        ),
    ):
        with pytest.raises((InputError, ProgramError), match=text):
            call()
    sink = bulk(tmp_path, AvroBulkWriters.for_generic_record(SCHEMA))
    with pytest.raises(JobExecutionError, match=r"the record \{'n': 'x'.* does not fit the Avro"):
        write(sink, [{"n": 1, "text": None}, {"n": "x", "text": None}], 1)
    sink = bulk(tmp_path, BulkWriterFactory.orc())
    with pytest.raises(JobExecutionError, match="column 'text' has no value in any record"):
        write(sink, [{"n": 1, "text": None}], 1)


def test_a_type_of_generic_records() -> None:
    kind = GenericRecordAvroTypeInfo(SCHEMA)
    assert pickle.loads(pickle.dumps(kind)) == kind != Types.PICKLED_BYTE_ARRAY()
    assert AvroInputFormat("x", SCHEMA).get_produced_type() == kind
