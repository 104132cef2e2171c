"""Several sources as one: each is read to its end, then the next one.

    HybridSource.builder(files).add_source(topic).build()

The state of `discover` says which source it is at. A source that will find nothing more, and whose
splits have all been read, is followed by the next one: then, and not before, the next one looks
for its splits. Splits carry the number of their source, in their id as well, so checkpoints,
restores and other parallelisms need nothing of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Self

from penstock.connectors.source import (
    Boundedness,
    Budget,
    Discovery,
    ReadResult,
    Source,
    SourceReader,
    Split,
)
from penstock.core.errors import ProgramError

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation


class HybridSource(Source):
    """Reads one source after the other; made by `HybridSource.builder(first)`."""

    _default_name = "Hybrid Source"

    def __init__(self, sources: tuple[Source, ...]) -> None:
        self._sources = sources

    @staticmethod
    def builder(first_source: Source) -> HybridSourceBuilder:
        """Begins with the source that is read first.

        Example:
            >>> first, then = NumberSequenceSource(1, 3), NumberSequenceSource(4, 5)
            >>> numbers = HybridSource.builder(first).add_source(then).build()
            >>> stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")
            >>> sorted(stream.execute_and_collect())
            [1, 2, 3, 4, 5]
        """
        return HybridSourceBuilder().add_source(first_source)

    @property
    def boundedness(self) -> Boundedness:
        return self._sources[-1].boundedness

    def discover(self, state: Any, now_ms: int) -> Discovery:
        at, inner, is_done = (0, None, False) if state is None else state
        if is_done and at < len(self._sources) - 1:
            at, inner = at + 1, None
        found = self._sources[at].discover(inner, now_ms)
        splits = tuple(
            Split(
                f"{at}:{split.split_id}",
                [at, split.split_id, split.data, split.start],
                split.start,
                concurrent=split.concurrent,
            )
            for split in found.splits
        )
        is_last = at == len(self._sources) - 1
        return Discovery(splits, [at, found.state, found.complete], found.complete and is_last)

    def searches_after_reading(self, state: Any) -> bool:
        return state is not None and state[2] and state[0] < len(self._sources) - 1

    def create_reader(self) -> SourceReader:
        return _HybridReader(self._sources)

    def checkpointed(self, positions: Mapping[str, Any], *, by_checkpoint: bool) -> None:
        moved: dict[int, dict[str, Any]] = {}
        for split_id, position in positions.items():
            at, _, inner = split_id.partition(":")
            moved.setdefault(int(at), {})[inner] = position
        for number, of_source in moved.items():
            self._sources[number].checkpointed(of_source, by_checkpoint=by_checkpoint)

    def job_ended(self) -> None:
        for source in self._sources:
            source.job_ended()

    def produced_type(self) -> TypeInformation | None:
        first, *others = (source.produced_type() for source in self._sources)
        return first if all(other == first for other in others) else None

    def with_parallelism(self, parallelism: int) -> Source:
        return self._with(lambda source: source.with_parallelism(parallelism))

    def with_settings(self, settings: Mapping[str, str]) -> Source:
        return self._with(lambda source: source.with_settings(settings))

    def _with(self, change: Callable[[Source], Source]) -> Source:
        return HybridSource(tuple(map(change, self._sources)))

    @property
    def emits_watermarks(self) -> bool:
        return self._sources[0].emits_watermarks


class _HybridReader(SourceReader):
    """Has the reader of one source open, of the one that is being read."""

    def __init__(self, sources: tuple[Source, ...]) -> None:
        self._sources = sources
        self._at = -1
        self._reader: SourceReader | None = None
        self._metrics: Any = None

    def register_metrics(self, metrics: Any) -> None:
        self._metrics = metrics

    def read(self, split: Split, position: Any, budget: Budget) -> ReadResult:
        at, split_id, data, start = split.data
        if self._reader is None or at != self._at:
            self.close()
            self._reader, self._at = self._sources[at].create_reader(), at
            if self._metrics is not None:
                self._reader.register_metrics(self._metrics)
        inner = Split(split_id, data, start, concurrent=split.concurrent)
        return self._reader.read(inner, position, budget)

    def close(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()


class HybridSourceBuilder:
    """Builds a `HybridSource`."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add_source(self, source: Source) -> Self:
        """Adds the source that is read after the last one, which must have an end."""
        if not isinstance(source, Source):
            raise ProgramError(f"a HybridSource is made of sources, not {source!r:.80}.")
        name = source.default_name()
        if source.has_micro_batches:
            raise ProgramError(
                f"'{name}' has micro-batches of Spark's and cannot be part of a HybridSource; read "
                "it as a stream of its own and use union()."
            )
        if self._sources:
            last = self._sources[-1]
            if last.boundedness is not Boundedness.BOUNDED:
                raise ProgramError(
                    f"'{last.default_name()}' never ends, so '{name}' behind it in a HybridSource "
                    "would never be read. Bound it, as with set_bounded(...), or use union()."
                )
            if last.emits_watermarks is not source.emits_watermarks:
                raise ProgramError(
                    "either all sources of a HybridSource emit watermarks of their own or none: "
                    f"'{last.default_name()}' and '{name}' differ. Give the stream a watermark "
                    "strategy instead."
                )
        self._sources.append(source)
        return self

    def build(self) -> HybridSource:
        """Returns the source."""
        return HybridSource(tuple(self._sources))
