"""Event time of a source subtask: a tracker per split, merged to one watermark."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK
from penstock.operators.watermark_strategy import WatermarkStrategy
from penstock.operators.watermark_tracker import WatermarkTracker

if TYPE_CHECKING:
    from penstock.core.records import Batch
    from penstock.operators.watermark_tracker import Emission


# Merges the watermarks and states of several inputs into one.
#
#     output = min over active, aligned inputs, when that rises
#
# * An idle input is ignored. Active again below the output, it is *unaligned* and stays ignored
#   until it catches up. When the last active input turns idle and was holding the output back, the
#   largest watermark of all inputs goes out first.
# * An input that ended (watermark MAX) is out of the reckoning: MAX goes out when all have ended.
#   In Flink it goes out as soon as every other input is idle, and makes all of their later records
#   late.
#
# The minimum over active, aligned inputs is not above the output, but for an input that turned
# active ahead of it: that lets nothing out until a watermark comes.


class _Input:
    __slots__ = ("aligned", "ended", "idle", "watermark")

    def __init__(
        self,
        watermark: int = MIN_WATERMARK,
        *,
        idle: bool = False,
        aligned: bool = True,
        ended: bool = False,
    ) -> None:
        self.watermark = watermark
        self.idle = idle
        self.aligned = aligned
        self.ended = ended


class WatermarkMerger:
    """Inputs that come and go, by any name (the splits of a source).

    Attributes:
        output: The merged watermark.
        idle: Whether the output is idle.
        told_idle: Whether it was when `status_change` was last asked.
    """

    def __init__(self, inputs: Iterable[Hashable] = ()) -> None:
        self.output = MIN_WATERMARK
        self.idle = False
        self.told_idle = False
        self._inputs: dict[Hashable, _Input] = {name: _Input() for name in inputs}
        self._is_minimum = False
        """Whether the output is known not to be below the minimum."""

    def __contains__(self, name: Hashable) -> bool:
        return name in self._inputs

    def __len__(self) -> int:
        return len(self._inputs)

    def add(self, name: Hashable) -> None:
        """Adds an active input; it holds the output back until its watermark reaches it."""
        if name not in self._inputs:
            self._inputs[name] = _Input()
            self.idle = False

    def remove(self, name: Hashable) -> int | None:
        """Removes an input; returns the new output if it rises."""
        gone = self._inputs.pop(name, None)
        if gone is None or gone.ended or gone.idle or not self._inputs:
            return None
        return self._after_leaving(gone, was_aligned=gone.aligned)

    def advance(self, name: Hashable, watermark: int) -> int | None:
        """Takes a watermark of one input; returns the new output if it rises."""
        channel = self._inputs[name]
        if channel.ended:
            return None
        if watermark >= MAX_WATERMARK:
            return self._end(channel)
        before = channel.watermark
        if channel.idle or watermark <= before:
            return None
        channel.watermark = watermark
        if not channel.aligned:
            channel.aligned = watermark >= self.output
        elif self._is_minimum and before > self.output:
            return None  # another input is the minimum
        return self._raise_output()

    def set_idle(self, name: Hashable, idle: bool) -> tuple[bool | None, int | None]:
        """Takes the status of one input.

        Returns:
            The output's new status (True = idle) or None, and its new watermark or None. A new
            watermark comes before idle.
        """
        watermark = self.set_idle_quietly(name, idle=idle)
        return self.status_change(), watermark

    def set_idle_quietly(self, name: Hashable, *, idle: bool) -> int | None:
        """As `set_idle`, for callers that ask for `status_change` later."""
        channel = self._inputs[name]
        if channel.ended or channel.idle == idle:
            return None
        channel.idle = idle
        if not idle:
            channel.aligned = channel.watermark >= self.output
            self._is_minimum = False
            self.idle = False
            return None
        was_aligned, channel.aligned = channel.aligned, False
        return self._after_leaving(channel, was_aligned=was_aligned)

    def of_inputs(self) -> dict[Any, int | None]:
        """Returns the watermark of each input; None for idle ones."""
        return {
            name: None if channel.idle else channel.watermark
            for name, channel in self._inputs.items()
            if not channel.ended
        }

    def mark_idle(self) -> None:
        """Makes the output of a merger without inputs idle."""
        if not self._inputs:
            self.idle = True

    def status_change(self) -> bool | None:
        """Returns the output's status if it was not announced yet, else None."""
        if self.idle == self.told_idle:
            return None
        self.told_idle = self.idle
        return self.idle

    def _end(self, channel: _Input) -> int | None:
        channel.ended = True
        if all(other.ended for other in self._inputs.values()):
            self.output = MAX_WATERMARK
            self.idle = False
            return MAX_WATERMARK
        if channel.idle:
            return None
        return self._after_leaving(channel, was_aligned=channel.aligned)

    def _after_leaving(self, gone: _Input, *, was_aligned: bool) -> int | None:
        """An active input turned idle, ended or was removed."""
        if any(not other.idle and not other.ended for other in self._inputs.values()):
            return self._raise_output()
        self.idle = True
        if was_aligned and gone.watermark <= self.output:
            largest = max(gone.watermark, *(other.watermark for other in self._inputs.values()))
            return self._rise_to(largest)
        return None

    def _raise_output(self) -> int | None:
        lowest = min(
            (
                other.watermark
                for other in self._inputs.values()
                if other.aligned and not other.idle and not other.ended
            ),
            default=None,
        )
        self._is_minimum = lowest is not None
        return None if lowest is None else self._rise_to(lowest)

    def _rise_to(self, watermark: int) -> int | None:
        if watermark <= self.output:
            return None
        self.output = watermark
        return watermark

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """Returns plain data."""
        inputs = [
            (name, channel.watermark, channel.idle, channel.aligned, channel.ended)
            for name, channel in self._inputs.items()
        ]
        return (self.output, self.idle, self.told_idle, inputs)

    def restore(self, state: Any) -> None:
        """Takes back what `snapshot` returned, or None for the beginning."""
        if state is None:
            state = (
                MIN_WATERMARK,
                False,
                False,
                [(name, MIN_WATERMARK, False, True, False) for name in self._inputs],
            )
        self._is_minimum = False
        self.output, self.idle, self.told_idle, inputs = state
        self._inputs = {
            name: _Input(watermark, idle=idle, aligned=aligned, ended=ended)
            for name, watermark, idle, aligned, ended in inputs
        }


class WatermarkValve(WatermarkMerger):
    """A fixed number of channels, by their index."""

    def __init__(self, n_channels: int) -> None:
        super().__init__(range(n_channels))
        self._n_channels = n_channels

    def restore(self, state: Any) -> None:
        """As the merger; another number of channels keeps the output and starts them again."""
        if state is not None and len(state[3]) != self._n_channels:
            fresh = [
                (index, MIN_WATERMARK, False, True, False) for index in range(self._n_channels)
            ]
            state = (state[0], False, False, fresh)
        super().restore(state)


class SourceWatermarks:
    """Timestamps, watermarks and idleness of all splits that one subtask reads.

    Args:
        strategy: What the program said, or None.
        name: Name of the source, for errors.
        source_emits: The source has watermarks of its own. They count if the strategy generates
            none.
    """

    def __init__(
        self, strategy: WatermarkStrategy | None, *, name: str, source_emits: bool = False
    ) -> None:
        self._strategy = strategy or WatermarkStrategy.no_watermarks()
        self._name = name
        self._uses_own = source_emits and not self._strategy.generates_watermarks
        self._trackers: dict[str, WatermarkTracker] = {}
        self._merger = WatermarkMerger()
        self._without_splits = WatermarkTracker(self._strategy, name)
        self._paused: frozenset[str] = frozenset()

    def add_split(self, split_id: str) -> None:
        """Makes a split count before its first record, so that others do not run ahead of it."""
        if split_id not in self._trackers:
            self._trackers[split_id] = WatermarkTracker(self._strategy, self._name)
            self._merger.add(split_id)

    def finish_split(self, split_id: str) -> None:
        """A finished split no longer holds the others back."""
        if self._trackers.pop(split_id, None) is not None:
            self._merger.remove(split_id)

    def assign(
        self, split_id: str, batch: Batch, own: list[Emission], *, ends_read: bool = True
    ) -> Iterator[tuple[Batch, int | None]]:
        """Yields the batch with timestamps, cut behind each record where a watermark rises.

        With each part comes the watermark of the split that rose behind it, or None. `current` and
        `status_change` are up to date with the part when it is yielded; the caller hands on its
        records first. Periodic watermarks wait for `ends_read`.

        Args:
            split_id: Where the records come from.
            batch: What was read.
            own: The watermarks of the source itself.
            ends_read: Whether this is the end of a read.
        """
        self.add_split(split_id)
        tracker = self._trackers[split_id]
        count = len(batch)
        batch, emissions = tracker.take(batch, ends_read=ends_read)
        if count:
            self._merger.set_idle_quietly(split_id, idle=False)
        start = 0
        for end, watermark in own if self._uses_own else emissions:
            self._merger.advance(split_id, watermark)
            yield batch if end - start == count else batch.part(start, end), watermark
            start = end
        if start < count:
            yield batch.part(start, count) if start else batch, None
        self._merger.set_idle_quietly(split_id, idle=tracker.is_idle)

    def on_epoch(self, now_ms: int, paused: Collection[str] = ()) -> None:
        """Asks periodic generators and looks for idle splits; those that are paused are not."""
        self._paused = frozenset(paused)
        for split_id, tracker in self._trackers.items():
            if split_id in self._paused:
                continue
            watermark = tracker.on_periodic(now_ms)
            if watermark is not None:
                self._merger.set_idle_quietly(split_id, idle=False)
                self._merger.advance(split_id, watermark)
            self._merger.set_idle_quietly(split_id, idle=tracker.is_idle)
        if not self._trackers:
            self._without_splits.on_periodic(now_ms)
            if self._without_splits.is_idle:
                self._merger.mark_idle()
        else:
            self._without_splits.restore(None)

    def current(self) -> int:
        """The subtask's watermark."""
        return self._merger.output

    def of_splits(self) -> dict[str, int | None]:
        """Returns the watermark of each split; None for idle ones."""
        return self._merger.of_inputs()

    @property
    def told_idle(self) -> bool:
        """Whether the last status that was handed on was idle."""
        return self._merger.told_idle

    def status_change(self) -> bool | None:
        """True when the subtask turned idle, False when active again, None when nothing changed.

        Hand "active" on before the watermark that comes with it, and "idle" behind it.
        """
        return self._merger.status_change()

    def next_check(self) -> int | None:
        """Returns when an epoch is due to look for idleness although no record came, or None."""
        read = [each for name, each in self._trackers.items() if name not in self._paused]
        trackers = read if self._trackers else [self._without_splits]
        return min(
            (due for tracker in trackers if (due := tracker.next_check()) is not None), default=None
        )

    # -- state --------------------------------------------------------------------------------

    def snapshot(self) -> Any:
        """Returns plain data by split."""
        return {
            "splits": {split: tracker.snapshot() for split, tracker in self._trackers.items()},
            "merger": self._merger.snapshot(),
            "without_splits": self._without_splits.snapshot(),
        }

    def restore(self, state: Any) -> None:
        """Takes back what `snapshot` returned, or None for the beginning."""
        self._trackers = {}
        self._merger = WatermarkMerger()
        self._without_splits.restore(None)
        if state is None:
            return
        self._merger.restore(state["merger"])
        self._without_splits.restore(state["without_splits"])
        for split_id, saved in state["splits"].items():
            tracker = WatermarkTracker(self._strategy, self._name)
            tracker.restore(saved)
            self._trackers[split_id] = tracker

    def restore_rescaled(self, states: Iterable[Any], split_ids: Iterable[str]) -> None:
        """Takes what concerns these splits out of the snapshots of all old subtasks.

        The watermark starts from the minimum over the old ones.
        """
        self.restore(None)
        found = [state for state in states if state is not None]
        saved = {split: tracker for state in found for split, tracker in state["splits"].items()}
        outputs = [state["merger"][0] for state in found]
        running = [output for output in outputs if output != MAX_WATERMARK]
        self._merger.output = min(running or outputs, default=self._merger.output)
        for split_id in split_ids:
            self.add_split(split_id)
            if split_id in saved:
                tracker = self._trackers[split_id]
                tracker.restore(saved[split_id])
                self._merger.advance(split_id, tracker.watermark)
                self._merger.set_idle_quietly(split_id, idle=tracker.is_idle)
