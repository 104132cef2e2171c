"""The process that Spark forks its Python workers from, on this machine: PySpark's, made ready.

What every worker needs is imported before the first is forked, once instead of once each, and a
worker whose JVM has gone ends without a traceback about its broken pipe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyspark.worker  # noqa: F401 - imported for the workers, as the next one
from pyspark import daemon

import penstock.spark.epoch_runner  # noqa: F401

if TYPE_CHECKING:
    from collections.abc import Callable


def until_jvm_ends(serve: Callable[..., int]) -> Callable[..., int]:
    """Returns a worker's loop that ends when nobody reads its answers any more."""

    def serve_until_jvm_ends(*connection: Any) -> int:
        try:
            return serve(*connection)
        except ConnectionError:
            return 1

    return serve_until_jvm_ends


if __name__ == "__main__":
    daemon.worker = until_jvm_ends(daemon.worker)
    daemon.manager()
