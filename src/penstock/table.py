"""PyFlink's Table API has no counterpart here: any name of it says what to use instead."""

from __future__ import annotations

from typing import NoReturn

from penstock.core.errors import UnsupportedError


def __getattr__(name: str) -> NoReturn:
    # Python's own machinery asks for these before it looks for a submodule.
    if name.startswith("__"):
        raise AttributeError(name)
    raise UnsupportedError(
        f"penstock.table.{name} was asked for, but Penstock has no Table API. Use Spark SQL for "
        "tables: env.from_spark(spark.sql(...)) makes a stream of a DataFrame, and "
        "stream.to_spark(...) writes one."
    )
