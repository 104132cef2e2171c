"""Merges the watermarks and states of several inputs into one.

    output = min over active, aligned inputs, when that rises

* An idle input is ignored. Active again below the output, it is *unaligned* and stays ignored until
  it catches up. When the last active input turns idle and was holding the output back, the largest
  watermark of all inputs goes out first.
* An input that ended (watermark MAX) is out of the reckoning: MAX goes out when all have ended. In
  Flink it goes out as soon as every other input is idle, and makes all of their later records late.

The minimum over active, aligned inputs is not above the output, but for an input that turned active
ahead of it: that lets nothing out until a watermark comes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from penstock.core.times import MAX_WATERMARK, MIN_WATERMARK


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
        """Returns the output's status if nobody was told yet, else None."""
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
        """As the merger; another number of channels keeps the output and starts them anew."""
        if state is not None and len(state[3]) != self._n_channels:
            fresh = [
                (index, MIN_WATERMARK, False, True, False) for index in range(self._n_channels)
            ]
            state = (state[0], False, False, fresh)
        super().restore(state)
