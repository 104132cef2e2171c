"""Files by PyFlink's `CsvSchema` and `DataTypes`; what is expected is what PyFlink 2.3 does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from penstock.table import DataTypes

from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.core.errors import PenstockError, ProgramError, UnsupportedError
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource
from penstock.datastream.formats.csv import (
    CsvBulkWriters,
    CsvReaderFormat,
    CsvSchema,
    CsvSchemaBuilder,
)
from penstock.datastream.formats.parquet import ParquetBulkWriters, ParquetColumnarRowInputFormat

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.datastream import DataStream

PEOPLE = """id,name,list,flag,price
1,ann,a;b,true,1.5
 2,"bo, b",,FALSE, 2
3,,x,yes,3.25
4,NULL,y;z;w,true,0
"""


def environment() -> StreamExecutionEnvironment:
    configuration = Configuration().set_string("penstock.spark.master", "in-process")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def people() -> CsvSchemaBuilder:
    return (
        CsvSchema.builder()
        .add_number_column("id", number_type=DataTypes.INT())
        .add_string_column("name")
        .add_array_column("list")
        .add_boolean_column("flag")
        .add_number_column("price", DataTypes.DOUBLE())
    )


def read(schema: CsvSchema, path: Path, text: str) -> list[tuple[Any, ...]]:
    path.write_text(text)
    files = FileSource.for_record_stream_format(CsvReaderFormat.for_schema(schema), str(path))
    stream = environment().from_source(files.build(), WatermarkStrategy.no_watermarks(), "csv")
    with stream.execute_and_collect() as rows:
        return [tuple(row) for row in rows]


def parts(stream: DataStream, written: Any, folder: Path) -> list[Path]:
    stream.sink_to(FileSink.for_bulk_format(str(folder), written).build())
    stream._environment.execute()
    return sorted(path for path in folder.rglob("part-*") if path.is_file())


def test_rows_of_a_csv_file(tmp_path: Path) -> None:
    schema = people().set_use_header().set_strict_headers().build()
    assert read(schema, tmp_path / "people.csv", PEOPLE) == [
        (1, "ann", ["a", "b"], True, 1.5),
        (2, "bo, b", [], False, 2.0),
        (3, "", ["x"], False, 3.25),
        (4, "NULL", ["y", "z", "w"], True, 0.0),
    ]


def test_rows_have_the_names_of_the_columns(tmp_path: Path) -> None:
    (tmp_path / "one.csv").write_text("7,x\n")
    schema = CsvSchema.builder().add_number_column("id").add_string_column("name").build()
    files = FileSource.for_record_stream_format(CsvReaderFormat(schema), str(tmp_path)).build()
    stream = environment().from_source(files, WatermarkStrategy.no_watermarks(), "csv")
    with stream.map(lambda row: row.as_dict()).execute_and_collect() as rows:
        assert list(rows) == [{"id": 7, "name": "x"}]


def test_a_text_for_none(tmp_path: Path) -> None:
    schema = people().set_use_header().set_null_value("NULL").build()
    rows = read(schema, tmp_path / "people.csv", PEOPLE)
    assert [row[1] for row in rows] == ["ann", "bo, b", "", None]


@pytest.mark.parametrize(
    ("schema", "text", "rows"),
    [
        (
            CsvSchema.builder().add_string_column("x").add_string_column("y")
            .set_column_separator("|").set_null_value("NULL"),
            'x|y\n1|"p|q"\n2|NULL\n',
            [("x", "y"), ("1", "p|q"), ("2", None)],
        ),
        (
            CsvSchema.builder().add_number_column("x").add_string_column("y")
            .set_column_separator("|").disable_quote_char(),
            '1|"a\n2|b"c\n',
            [(1, '"a'), (2, 'b"c')],
        ),
        (
            CsvSchema.builder().add_number_column("x")
            .add_array_column("y", ",", DataTypes.INT())
            .set_column_separator("|").set_skip_first_data_row(),
            "h\n1|2,3\n2|\n",
            [(1, [2, 3]), (2, [])],
        ),
        # Columns go by their position, and a header is only compared if it is strict.
        (
            CsvSchema.builder().add_number_column("id").add_string_column("name").set_use_header(),
            "wrong,name\n1,b\n",
            [(1, "b")],
        ),
    ],
    ids=["separator", "no quotes", "skipped", "header"],
)  # fmt: skip
def test_settings_of_a_schema(
    schema: CsvSchemaBuilder, text: str, rows: list[Any], tmp_path: Path
) -> None:
    assert read(schema.build(), tmp_path / "some.csv", text) == rows


@pytest.mark.parametrize(
    ("strict", "text", "message"),
    [
        (
            True,
            "wrong,name\n1,b\n",
            "has the header wrong, name, but the schema has the columns id",
        ),
        (False, "id,name\n,b\n", "column 'id' is ''"),
        (False, "id,name\n1,b,c\n", "a row has 3 fields instead of 2"),
    ],
)
def test_what_is_no_row_has_an_address(
    strict: bool, text: str, message: str, tmp_path: Path
) -> None:
    builder = CsvSchema.builder().add_number_column("id").add_string_column("name")
    schema = builder.set_use_header().set_strict_headers(strict).build()
    with pytest.raises(PenstockError, match=message) as caught:
        read(schema, tmp_path / "bad.csv", text)
    assert "bad.csv" in str(caught.value)


def test_sizes_and_columns_of_another_schema() -> None:
    first = CsvSchema.builder().add_number_column("id").add_array_column("tags", "#").build()
    builder = CsvSchema.builder().add_string_column("name").add_columns_from(first)
    assert (len(first), first.size(), len(builder), builder.size()) == (2, 2, 3, 3)
    assert len(builder.clear_columns()) == 0


def test_what_a_schema_cannot_have() -> None:
    with pytest.raises(UnsupportedError, match=r"set_allow_comments\(\) is not supported: read"):
        CsvSchema.builder().set_allow_comments()
    with pytest.raises(ProgramError, match=r"the type of the column 'id' is .*DataTypes.INT\(\)"):
        CsvSchema.builder().add_number_column("id", DataTypes.INT)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="has no columns"):
        CsvSchema.builder().build()


@pytest.mark.parametrize("header", [False, True])
def test_csv_files_are_written(header: bool, tmp_path: Path) -> None:
    schema = (
        CsvSchema.builder()
        .add_number_column("id", DataTypes.INT())
        .add_string_column("name")
        .add_array_column("list", "#", DataTypes.INT())
        .add_number_column("d", DataTypes.DOUBLE())
        .set_column_separator("|")
    )
    if header:
        schema = schema.set_use_header().set_null_value("NIL").set_line_separator("\r\n")
    kinds = [Types.INT(), Types.STRING(), Types.OBJECT_ARRAY(Types.INT()), Types.DOUBLE()]
    rows = [Row(1, "a|b", [1, 2], 1.5), Row(2, None, [], None), Row(3, 'q"q', [5], 2.0)]
    stream = environment().from_collection(
        rows, Types.ROW_NAMED(["id", "name", "list", "d"], kinds)
    )
    (part,) = parts(stream, CsvBulkWriters.for_schema(schema.build()), tmp_path)
    assert part.read_bytes() == (HEADED if header else BARE)


BARE = b"""1|"a|b"|"1#2"|1.5\n2|||\n3|"q""q"|"5"|2.0\n"""
HEADED = b'"id"|"name"|"list"|"d"\r\n1|"a|b"|"1#2"|1.5\r\n2|NIL||NIL\r\n3|"q""q"|"5"|2.0\r\n'


def test_parquet_by_data_types(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    row_type = DataTypes.ROW(
        [
            DataTypes.FIELD("id", DataTypes.BIGINT()),
            DataTypes.FIELD("name", DataTypes.VARCHAR(20)),
            DataTypes.FIELD("tags", DataTypes.ARRAY(DataTypes.STRING())),
            DataTypes.FIELD("raw", DataTypes.BYTES()),
        ]
    )
    rows = [Row(1, "a", ["x"], b"1"), Row(2, None, [], None)]
    written = ParquetBulkWriters.for_row_type(row_type, Configuration(), utc_timestamp=True)
    (part,) = parts(environment().from_collection(rows, row_type), written, tmp_path)
    table = parquet.read_table(part)
    assert table.schema.types == [
        arrow.int64(),
        arrow.string(),
        arrow.list_(arrow.string()),
        arrow.binary(),
    ]
    assert table.to_pylist()[0] == {"id": 1, "name": "a", "tags": ["x"], "raw": b"1"}
    some = DataTypes.ROW(
        [DataTypes.FIELD("name", DataTypes.STRING()), DataTypes.FIELD("id", DataTypes.BIGINT())]
    )
    source = FileSource.for_bulk_file_format(
        ParquetColumnarRowInputFormat(row_type=some, hadoop_config=Configuration()), str(part)
    ).build()
    stream = environment().from_source(source, WatermarkStrategy.no_watermarks(), "parquet")
    with stream.execute_and_collect() as read_rows:
        assert [row.as_dict() for row in read_rows] == [
            {"name": "a", "id": 1},
            {"name": None, "id": 2},
        ]


def test_data_types_are_types() -> None:
    nested = DataTypes.ROW([DataTypes.DECIMAL(10, 2), DataTypes.TIMESTAMP(3)])
    assert nested == Types.ROW_NAMED(["f0", "f1"], [Types.BIG_DEC(), Types.SQL_TIMESTAMP()])
    assert DataTypes.MAP(DataTypes.INT(), DataTypes.DATE(nullable=False)) == Types.MAP(
        Types.INT(), Types.SQL_DATE()
    )
    with pytest.raises(ProgramError, match=r"the field 'id' has .* as its type; use DataTypes"):
        DataTypes.ROW([DataTypes.FIELD("id", DataTypes.INT)])  # type: ignore[arg-type]


def test_settings_of_hadoop_are_refused() -> None:
    hadoop = Configuration().set_string("fs.defaultFS", "hdfs://n")
    row_type = DataTypes.ROW([DataTypes.INT()])
    with pytest.raises(ProgramError, match="ParquetBulkWriters got settings of Hadoop"):
        ParquetBulkWriters.for_row_type(row_type, hadoop)
    with pytest.raises(ProgramError, match="ParquetColumnarRowInputFormat got settings of Hadoop"):
        ParquetColumnarRowInputFormat(row_type, hadoop)
