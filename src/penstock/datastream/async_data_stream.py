"""PyFlink's `datastream.async_data_stream`: calls that wait, many records at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.errors import ProgramError
from penstock.core.refused_names import names_of
from penstock.core.times import to_millis
from penstock.datastream.data_stream import DataStream
from penstock.operators.async_function import NO_RETRY_STRATEGY, AsyncFunction, AsyncRetryStrategy
from penstock.operators.async_wait import AsyncWaitSpec

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation

__getattr__ = names_of(__name__)


class AsyncDataStream:
    """Appends operators whose function waits.

    Calls overlap, and go on while checkpoints are taken. With `ordered_wait` results leave in the
    order of their records, so that a slow call holds back those behind it; with `unordered_wait`
    each leaves when its call has ended, but never on the other side of a watermark.
    """

    @staticmethod
    def unordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Calls a function for every record, up to `capacity` at once, and emits as calls end."""
        return AsyncDataStream.unordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def unordered_wait_with_retry(  # noqa: PLR0913, PLR0917 - PyFlink's signature
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `unordered_wait`; calls again if the strategy says so."""
        timeout_ms = to_millis(timeout, "the timeout")
        spec = AsyncWaitSpec(
            async_function, timeout_ms, capacity, async_retry_strategy, is_ordered=False
        )
        return _append(data_stream, spec, output_type)

    @staticmethod
    def ordered_wait(
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """Calls a function for every record, up to `capacity` at once, and keeps their order."""
        return AsyncDataStream.ordered_wait_with_retry(
            data_stream, async_function, timeout, NO_RETRY_STRATEGY, capacity, output_type
        )

    @staticmethod
    def ordered_wait_with_retry(  # noqa: PLR0913, PLR0917 - PyFlink's signature
        data_stream: DataStream,
        async_function: AsyncFunction,
        timeout: Any,
        async_retry_strategy: AsyncRetryStrategy,
        capacity: int = 100,
        output_type: TypeInformation | None = None,
    ) -> DataStream:
        """As `ordered_wait`; calls again if the strategy says so."""
        timeout_ms = to_millis(timeout, "the timeout")
        spec = AsyncWaitSpec(async_function, timeout_ms, capacity, async_retry_strategy)
        return _append(data_stream, spec, output_type)


def _append(
    stream: DataStream, spec: AsyncWaitSpec, output_type: TypeInformation | None
) -> DataStream:
    if not isinstance(stream, DataStream):
        raise ProgramError(f"AsyncDataStream takes a DataStream first, not {stream!r:.80}.")
    return stream._then("async wait operator", spec, output_type)
