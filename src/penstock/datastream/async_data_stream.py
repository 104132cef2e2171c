"""PyFlink's `datastream.async_data_stream`: calls that wait, many records at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.duration import to_millis
from penstock.core.errors import ProgramError
from penstock.core.refused_names import names_of
from penstock.datastream.data_stream import DataStream
from penstock.operators.async_function import NO_RETRY_STRATEGY, AsyncWaitSpec

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation
    from penstock.operators.async_function import AsyncFunction, AsyncRetryStrategy

__all__ = ["AsyncDataStream"]

__getattr__ = names_of(__name__)


class AsyncDataStream:
    """Appends operators whose function waits.

    Results keep the order of their records in both modes: calls overlap within a batch, and a batch
    waits for its last call either way.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Calls a function for every record, up to `capacity` at once."""
        return _wait(data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type)

    @staticmethod
    def unordered_wait_with_retry(  # noqa: PLR0913, PLR0917 - PyFlink's signature
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Calls a function for every record, again if the strategy says so."""
        return _wait(
            data_stream, async_function, timeout, async_retry_strategy, capacity, output_type
        )

    ordered_wait = unordered_wait
    ordered_wait_with_retry = unordered_wait_with_retry


def _wait(  # noqa: PLR0913, PLR0917 - one argument per setting
    stream: DataStream,
    function: AsyncFunction,
    timeout: Any,
    retry: AsyncRetryStrategy,
    capacity: int,
    output_type: TypeInformation | None,
) -> DataStream:
    if not isinstance(stream, DataStream):
        raise ProgramError(f"AsyncDataStream takes a DataStream first, not {stream!r:.80}.")
    spec = AsyncWaitSpec(function, to_millis(timeout, "the timeout"), capacity, retry)
    return stream._then("async wait operator", spec, output_type)
