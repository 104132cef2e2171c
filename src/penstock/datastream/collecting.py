"""`execute_and_collect`: runs a program and hands the records of a stream to it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.core.partitioning import Forward

if TYPE_CHECKING:
    from concurrent.futures import Future

    from penstock.common.job_client import JobClient
    from penstock.connectors.collect import CollectedResults
    from penstock.datastream.plain_stream import DataStream

__all__ = ["CloseableIterator", "collect"]

_MAX_BUFFERED = 100_000
_numbers = itertools.count(1)


class CloseableIterator:
    """Iterates over the records of a running job; closing it cancels the job.

    Use it in a `with` statement, or call `close()`.
    """

    def __init__(self, results: CollectedResults, job_client: JobClient) -> None:
        self._results = results
        self._records: Iterator[Any] = iter(results)
        self._job_client = job_client

    def get_job_client(self) -> JobClient:
        """Returns the client of the job."""
        return self._job_client

    def next(self) -> Any:
        """Returns the next record; waits for it."""
        return next(self)

    def close(self) -> None:
        """Cancels the job unless it has ended."""
        self._results.close()
        if not self._job_client._job.result.done():
            self._job_client.cancel()
            self._job_client._wait_quietly()

    def __iter__(self) -> CloseableIterator:
        return self

    def __next__(self) -> Any:
        return next(self._records)

    def __enter__(self) -> CloseableIterator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def collect(
    stream: DataStream, job_name: str | None, limit: int | None
) -> CloseableIterator | list[Any]:
    """Appends a collecting sink, starts the job, returns an iterator or the first records."""
    from penstock.connectors.collect import CollectedResults, CollectSink

    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise ProgramError(f"execute_and_collect() got limit={limit!r}; it must be 1 or more.")
    name = f"collect-{next(_numbers)}"
    sink = stream._sink(CollectSink(name))
    parallelism = _parallelism_before(stream)
    if parallelism is not None:
        sink.set_parallelism(parallelism)
    results = CollectedResults(name, max_buffered=_MAX_BUFFERED)
    try:
        client = stream._environment.execute_async(job_name or "DataStream Collect")
    except BaseException:
        results.close()
        raise

    def finish(result: Future[Any]) -> None:
        results.finish(None if result.cancelled() else result.exception())

    client._job.result.add_done_callback(finish)
    iterator = CloseableIterator(results, client)
    if limit is None:
        return iterator
    with iterator:
        return list(itertools.islice(iterator, limit))


def _parallelism_before(stream: DataStream) -> int | None:
    """Returns the parallelism of the operator before; with the same, its order is kept."""
    given = stream._inputs[0]
    if len(stream._inputs) > 1 or given.partitioning != Forward():
        return None
    return stream._environment._program.nodes[given.node_id].parallelism
