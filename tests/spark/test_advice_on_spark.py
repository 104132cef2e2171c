"""What the errors of refused names advise of Spark works as they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from penstock.common import Configuration, Row, Types
from penstock.datastream import StreamExecutionEnvironment
from penstock.spark.session import get_session

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

PEOPLE = [Row(name="Ada", year=1815), Row(name="Alan", year=1912)]


@pytest.fixture
def env() -> StreamExecutionEnvironment:
    configuration = Configuration()
    configuration.set_string("penstock.spark.master", "local[2,4]")
    return StreamExecutionEnvironment.get_execution_environment(configuration)


@pytest.fixture
def spark() -> Any:
    return get_session("advice", "local[2,4]", {})


def test_tables_before_and_after_a_stream(
    env: StreamExecutionEnvironment, spark: Any, tmp_path: Path
) -> None:
    """The table API: Spark SQL makes the stream, and gets its results."""
    people = spark.sql("SELECT * FROM VALUES ('Ada', 1815), ('Alan', 1912) AS people(name, year)")
    stream = env.from_spark(people).filter(lambda row: row.year > 1900)
    stream.to_spark(
        lambda df, epoch: (
            df.selectExpr("upper(name) AS name").write.mode("append").json(str(tmp_path))
        ),
        schema=["name", "year"],
    )
    env.execute()
    assert [row.name for row in spark.read.json(str(tmp_path)).collect()] == ["ALAN"]


def test_a_schema_of_spark_gives_types(env: StreamExecutionEnvironment, spark: Any) -> None:
    query = """SELECT 7 AS a, map('k', 8) AS b, timestamp '2026-03-01 12:00:00' AS c,
        named_struct('x', 1.50BD, 'y', array(date '2026-03-01')) AS d"""
    made = spark.sql(query)
    seen: list[Any] = []
    env.from_spark(made).to_spark(
        lambda df, epoch: seen.append((df.dtypes, df.collect())), schema=made.schema
    )
    env.execute()
    assert seen == [(made.dtypes, made.collect())]


def test_a_database_over_jdbc(env: StreamExecutionEnvironment, spark: Any, tmp_path: Path) -> None:
    """The JDBC connector: Derby comes with Spark."""
    url = f"jdbc:derby:{tmp_path / 'people'};create=true"
    options = {"url": url, "dbtable": "people", "driver": "org.apache.derby.jdbc.EmbeddedDriver"}
    env.from_collection(PEOPLE).to_spark(
        lambda df, epoch: df.write.format("jdbc").options(**options).mode("append").save(),
        schema=["name", "year"],
    )
    env.execute()
    read = env.from_spark(spark.read.format("jdbc").options(**options).load())
    with read.map(lambda row: row[0], Types.STRING()).execute_and_collect() as names:
        assert sorted(names) == ["Ada", "Alan"]


def test_orc(env: StreamExecutionEnvironment, spark: Any, tmp_path: Path) -> None:
    env.from_collection(PEOPLE).to_spark(output_format="orc", path=str(tmp_path / "people"))
    env.execute()
    read = env.from_spark(spark.read.orc(str(tmp_path / "people")))
    with read.map(lambda row: row.name, Types.STRING()).execute_and_collect() as names:
        assert sorted(names) == ["Ada", "Alan"]
