"""Reads orders from a database, keeps a total per item, writes totals back; exactly once."""

import contextlib
import sqlite3
import sys
import tempfile

from penstock.common import Configuration, Row, Types, WatermarkStrategy
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.connectors.jdbc import JdbcConnectionOptions, JdbcSink, JdbcSource

UPSERT = "INSERT INTO totals VALUES (?, ?) ON CONFLICT (item) DO UPDATE SET cents = excluded.cents"


def main(folder: str) -> None:
    path = f"{folder}/shop.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, item TEXT, cents INT)")
        database.execute("CREATE TABLE totals (item TEXT PRIMARY KEY, cents INT)")
        rows = [("tea", 300), ("cake", 450), ("tea", 200), ("jam", 250)]
        database.executemany("INSERT INTO orders (item, cents) VALUES (?, ?)", rows)
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.dir", f"{folder}/checkpoints")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.enable_checkpointing(1_000)
    # PostgreSQL: jdbc:postgresql://localhost:5432/shop, with_user_name(...), with_password(...)
    options = JdbcConnectionOptions.JdbcConnectionOptionsBuilder()
    options = options.with_url(f"jdbc:sqlite:{path}").build()
    orders = JdbcSource.builder().set_connection_options(options)
    # set_follow() goes on with rows that are added later.
    orders = orders.set_sql("SELECT id, item, cents FROM orders").set_split_column("id").build()
    total = Types.ROW([Types.STRING(), Types.LONG()])
    (
        env.from_source(orders, WatermarkStrategy.no_watermarks(), "orders")
        .uid("orders")
        .map(lambda row: (row.item, row.cents))
        .key_by(lambda pair: pair[0])
        .sum(1)
        .uid("totals")
        .map(lambda pair: Row(*pair), total)
        .sink_to(JdbcSink.exactly_once_sink(UPSERT, total, options))
        .uid("out")
    )
    env.execute("totals of a shop")
    with contextlib.closing(sqlite3.connect(path)) as database:
        for item, cents in database.execute("SELECT * FROM totals ORDER BY item"):
            print(item, cents)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp())
