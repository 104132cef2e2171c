"""Where the jobs of `table_kills` write, and what they read, as outsiders see both."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import psycopg
import pyarrow
import pymysql
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from sqlalchemy.exc import OperationalError

if TYPE_CHECKING:
    from pathlib import Path

    import mariadb_server
    from opensearch_server import Server as OpenSearch
    from postgres_server import Server


class Target(ABC):
    """Where rows arrive, and how an outsider reads them."""

    url: str
    points: tuple[str, ...]  # How the fault points begin that are its own.
    has_order = True
    has_server = False

    @abstractmethod
    def counts(self) -> list[tuple[int, int]]:
        """Returns key and count of each row, in the order in which they were written."""

    def written(self) -> int:
        """Returns how many records have arrived."""
        return len(self.counts())

    def expected(self, total: int) -> list[int]:
        """Returns the counts that a key has after so many records of it."""
        return list(range(1, total + 1))

    def restart(self) -> None:
        raise NotImplementedError


class Database(Target):
    """A database with the table `counts`; without a server it is a file of SQLite."""

    points = ("jdbc.", "sink.")

    def __init__(self, directory: Path, server: Server | mariadb_server.Server | None) -> None:
        self.server = server
        self.has_server = server is not None
        self._path = directory / "out.db"
        self.url = f"jdbc:sqlite:{self._path}" if server is None else server.url
        number = "INTEGER PRIMARY KEY" if server is None else "SERIAL PRIMARY KEY"
        for name in ("counts", "penstock_commits"):
            self.execute(f"DROP TABLE IF EXISTS {name}")
        self.execute(f"CREATE TABLE counts (n {number}, k INT, count BIGINT, padding TEXT)")

    def execute(self, sql: str) -> list[Any]:
        if self.server is not None:
            return self.server.execute(sql)
        with contextlib.closing(sqlite3.connect(self._path, timeout=60)) as database, database:
            return database.execute(sql).fetchall()

    def counts(self) -> list[tuple[int, int]]:
        return self.execute("SELECT k, count FROM counts ORDER BY n")

    def restart(self) -> None:
        assert self.server is not None
        self.server.kill()
        time.sleep(0.2)
        self.server.start()


class SearchIndex(Target):
    """An index of OpenSearch: at least once, and each document has an id."""

    points = ("sink.",)
    has_order = False
    has_server = True

    def __init__(self, server: OpenSearch) -> None:
        self.server = server
        self.url = f"elasticsearch:{server.address}"
        server.ask("PUT", "/counts", {"settings": {"index.max_result_window": 1_000_000}})

    def counts(self) -> list[tuple[int, int]]:
        self.server.ask("POST", "/counts/_refresh")
        path = "/counts/_search?size=1000000&_source_includes=key,count"
        found = self.server.ask("GET", path)["hits"]["hits"]
        return sorted((hit["_source"]["key"], hit["_source"]["count"]) for hit in found)

    def restart(self) -> None:
        self.server.kill()
        self.server.start()


class DeltaTarget(Target):
    """A Delta table on the disk, read by Arrow."""

    points = ("delta.", "sink.")
    has_order = False

    def __init__(self, directory: Path) -> None:
        self._path = directory / "table"
        self.url = f"delta:{self._path}"

    def counts(self) -> list[tuple[int, int]]:
        if not (self._path / "_delta_log" / f"{0:020}.json").exists():
            return []
        return _pairs(DeltaTable(self._path).to_pyarrow_table())


class MergedTarget(DeltaTarget):
    """A Delta table that has one row for each key: the last."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.url = f"merge:{self._path}"
        self._seen: dict[int, int] = {}

    def written(self) -> int:
        counts = self.counts()
        now = dict(counts)
        assert len(now) == len(counts), f"a key is there twice: {counts}"
        older = {key: count for key, count in self._seen.items() if now.get(key, 0) < count}
        assert not older, f"older rows came back: now {now}, then {older}"
        self._seen = now
        return sum(now.values())

    def expected(self, total: int) -> list[int]:
        return [total]


class IcebergTarget(Target):
    """An Iceberg table on the disk, whose catalog is SQLite."""

    points = ("iceberg.", "sink.")
    has_order = False

    def __init__(self, directory: Path) -> None:
        self._settings = {
            "type": "sql",
            "uri": f"sqlite:///{directory}/catalog.db",
            "warehouse": f"file://{directory}/warehouse",
        }
        self.url = f"iceberg:{json.dumps(self._settings)}"
        self._catalog = load_catalog("penstock", **self._settings)

    def counts(self) -> list[tuple[int, int]]:
        if not self._catalog.table_exists("shop.counts"):
            return []
        return _pairs(self._catalog.load_table("shop.counts").scan().to_arrow())


def _pairs(table: Any) -> list[tuple[int, int]]:
    columns = (table.column(name).to_pylist() for name in ("key", "count"))
    return sorted(zip(*columns, strict=True))


LAKES: dict[str, Callable[[Path], Target]] = {
    "delta": DeltaTarget,
    "merge": MergedTarget,
    "iceberg": IcebergTarget,
}


class Numbers:
    """The numbers that a job reads: as many as a file has bytes."""

    url = ""

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()

    def add(self) -> None:
        """Adds a few; called 20 times a second."""
        with self._path.open("ab") as file:
            file.write(b"." * 30)

    def end(self) -> None:
        """Finishes what was begun."""

    def all(self) -> Iterable[int]:
        """Returns all that were added."""
        return range(self._path.stat().st_size)


class FollowedTable(Numbers):
    """A table to which two connections add rows; one of them takes a while until it commits."""

    insert = "INSERT INTO numbers SELECT nextval('numbers_n_seq') FROM generate_series(1, 15)"
    gone: type[Exception] = psycopg.OperationalError

    def __init__(self, server: Any) -> None:
        self._server = server
        self.url = server.url
        server.execute("DROP TABLE IF EXISTS numbers")
        server.execute("CREATE TABLE numbers (n SERIAL PRIMARY KEY)")
        self._slow, self._fast = self._connect()
        self._calls = 0

    def _connect(self) -> tuple[Any, Any]:
        login = f"host=127.0.0.1 port={self._server.port} user=penstock dbname=postgres"
        return psycopg.connect(login), psycopg.connect(login, autocommit=True)

    def add(self) -> None:
        try:
            self._slow.cursor().execute(self.insert)
            self._fast.cursor().execute(self.insert)
            self._calls += 1
            if self._calls % 4 == 0:
                self._slow.commit()
        except self.gone:  # The server was killed; what was open is gone.
            self.close()
            with contextlib.suppress(self.gone):
                self._slow, self._fast = self._connect()

    def end(self) -> None:
        self._slow.commit()
        self.close()

    def close(self) -> None:
        self._slow.close()
        self._fast.close()

    def all(self) -> Iterable[int]:
        return [n for (n,) in self._server.execute("SELECT n FROM numbers")]


class FollowedMariaDb(FollowedTable):
    """The same in MariaDB."""

    insert = "INSERT INTO numbers SELECT NULL FROM seq_1_to_15"
    gone = pymysql.Error

    def _connect(self) -> tuple[Any, Any]:
        slow, fast = self._server.connect(), self._server.connect()
        slow.autocommit(False)
        return slow, fast

    def close(self) -> None:
        for connection in (self._slow, self._fast):
            with contextlib.suppress(pymysql.Error):  # It is closed.
                connection.close()


class FollowedLake(Numbers):
    """A lake table to which versions are added; in a Delta table, files are joined meanwhile."""

    def __init__(self, directory: Path, kind: str) -> None:
        self._next = 0
        self._schema = pyarrow.schema([("n", pyarrow.int64())])
        self._path, self._catalog = directory / "numbers", None
        if kind == "delta":
            self.url = f"from-delta:{self._path}"
            DeltaTable.create(self._path, self._schema)
            return
        settings = {
            "type": "sql",
            "uri": f"sqlite:///{directory}/numbers.db",
            "warehouse": f"file://{directory}/numbers",
        }
        self.url = f"from-iceberg:{json.dumps(settings)}"
        self._catalog = load_catalog("penstock", **settings)
        self._catalog.create_namespace("shop")
        self._catalog.create_table("shop.numbers", self._schema)

    def add(self) -> None:
        numbers = range(self._next, self._next + 50)
        rows = pyarrow.table([list(numbers)], schema=self._schema)
        if self._catalog is not None:
            try:
                self._catalog.load_table("shop.numbers").append(rows)
            except OperationalError:
                return  # A process that stands still may have locked the catalog.
        else:
            write_deltalake(self._path, rows, mode="append")
            if self._next % 1_000 == 0:
                DeltaTable(self._path).optimize.compact()
        self._next = numbers.stop
        time.sleep(0.1)

    def all(self) -> Iterable[int]:
        return range(self._next)
