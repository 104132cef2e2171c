"""Restart strategies: whether and when a failed job starts again.

    disable             gives up at the first failure
    fixed-delay         after `attempts` restarts
    failure-rate        when one more than the allowed failures lie within the interval
    exponential-delay   when the attempts exceed their limit without a quiet time in between

Each is a pure decider: `failed` takes the time and a random number and says what to do. A failure
that comes before the planned restart belongs to it and counts nothing. What a strategy has to
remember is a record, with which another process goes on.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.core.errors import ConfigurationError
from penstock.core.times import format_millis

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

PREFIX: Final = "restart-strategy."


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Start the job again."""

    delay_ms: int  # Time to wait from now on.
    is_new_attempt: bool = True  # False when the failure was merged into a restart already planned.


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The job has failed for good."""

    reason: str  # Why, with the limit that was reached and the setting that holds it.


RestartDecision = RestartAfter | GiveUp


class FailureMemory(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a strategy remembers between failures."""

    failures: int = 0  # How many count.
    # When the last ones were; for growing delays, when the last restart was due.
    times_ms: tuple[int, ...] = ()

    def moved(self, by_ms: int) -> FailureMemory:
        """Returns the same on another clock."""
        return FailureMemory(self.failures, tuple(time_ms + by_ms for time_ms in self.times_ms))


class RestartStrategy(ABC):
    """Decides after each failure of a job."""

    memory = FailureMemory()
    """Of the failures before; a process that goes on with the job begins with it."""

    @abstractmethod
    def failed(self, now_ms: int, random: float) -> RestartDecision:
        """Takes in a failure.

        Args:
            now_ms: Time of a monotonic clock.
            random: A random number in [0, 1), for jitter.
        """

    @abstractmethod
    def describe(self) -> str:
        """Returns one line for the banner."""


class NoRestart(RestartStrategy):
    """Gives up at the first failure."""

    def failed(self, now_ms: int, random: float) -> RestartDecision:
        return GiveUp(
            "the restart strategy is 'disable'; enable checkpointing, or set "
            f"{PREFIX}type, to have the job restarted"
        )

    def describe(self) -> str:
        return "disable"


@dataclass(eq=False)
class FixedDelay(RestartStrategy):
    """Restarts a fixed number of times, each after the same delay."""

    attempts: int = 1
    delay_ms: int = 1_000

    def __post_init__(self) -> None:
        _at_least("fixed-delay.attempts", self.attempts, 0)
        _at_least("fixed-delay.delay", self.delay_ms, 0)

    def failed(self, now_ms: int, random: float) -> RestartDecision:
        failures = self.memory.failures + 1
        self.memory = FailureMemory(failures)
        if failures > self.attempts:
            return GiveUp(
                f"this was failure {failures}, and {PREFIX}fixed-delay.attempts allows "
                f"{self.attempts} restarts"
            )
        return RestartAfter(self.delay_ms)

    def describe(self) -> str:
        return f"fixed-delay, {self.attempts} attempts, {format_millis(self.delay_ms)} apart"


@dataclass(eq=False)
class FailureRate(RestartStrategy):
    """Restarts unless too many failures lie within an interval."""

    max_failures: int = 1
    interval_ms: int = 60_000
    delay_ms: int = 1_000

    def __post_init__(self) -> None:
        _at_least("failure-rate.max-failures-per-interval", self.max_failures, 1)
        _at_least("failure-rate.failure-rate-interval", self.interval_ms, 1)
        _at_least("failure-rate.delay", self.delay_ms, 0)

    def failed(self, now_ms: int, random: float) -> RestartDecision:
        times_ms = (*self.memory.times_ms, now_ms)[-self.max_failures - 1 :]
        self.memory = FailureMemory(self.memory.failures + 1, times_ms)
        is_full = len(times_ms) > self.max_failures
        # As in Flink, failures exactly one interval apart still lie within it.
        if is_full and now_ms - times_ms[0] <= self.interval_ms:
            return GiveUp(
                f"{len(times_ms)} failures lie within "
                f"{format_millis(self.interval_ms)}, and "
                f"{PREFIX}failure-rate.max-failures-per-interval allows {self.max_failures}"
            )
        return RestartAfter(self.delay_ms)

    def describe(self) -> str:
        return (
            f"failure-rate, {self.max_failures} failures per {format_millis(self.interval_ms)}, "
            f"{format_millis(self.delay_ms)} apart"
        )


@dataclass(eq=False)
class ExponentialDelay(RestartStrategy):
    """Restarts after delays that grow while the job keeps failing."""

    initial_ms: int = 1_000  # First delay, and the least one.
    maximum_ms: int = 60_000  # Longest delay.
    multiplier: float = 1.5  # Growth from one delay to the next.
    jitter: float = 0.1  # Share of the delay that is added or taken away at most.
    reset_ms: int = 3_600_000  # Time without failure after which the delay is reset.
    attempts: int | None = None  # Restarts without a quiet time in between; None: unlimited.

    def __post_init__(self) -> None:
        _at_least("exponential-delay.initial-backoff", self.initial_ms, 1)
        _at_least("exponential-delay.reset-backoff-threshold", self.reset_ms, 1)
        if self.attempts is not None:
            _at_least("exponential-delay.attempts-before-reset-backoff", self.attempts, 1)
        if not 0 <= self.jitter <= 1:
            raise ConfigurationError(
                f"{PREFIX}exponential-delay.jitter-factor is {self.jitter}; choose a share from 0 "
                "to 1."
            )
        if self.multiplier <= 1:
            raise ConfigurationError(
                f"{PREFIX}exponential-delay.backoff-multiplier is {self.multiplier}; it must be "
                "above 1, or use fixed-delay."
            )
        if self.maximum_ms < self.initial_ms:
            raise ConfigurationError(
                f"{PREFIX}exponential-delay.max-backoff is {format_millis(self.maximum_ms)}; it "
                f"must not be below initial-backoff ({format_millis(self.initial_ms)})."
            )

    def failed(self, now_ms: int, random: float) -> RestartDecision:
        attempts = self.memory.failures
        planned_ms = self.memory.times_ms[-1] if self.memory.times_ms else None
        if planned_ms is not None and now_ms <= planned_ms:
            return RestartAfter(planned_ms - now_ms, is_new_attempt=False)
        if planned_ms is not None and now_ms - planned_ms >= self.reset_ms:
            attempts = 0
        delay_ms = self._jittered_ms(attempts, random)
        self.memory = FailureMemory(attempts + 1, (now_ms + delay_ms,))
        if self.attempts is not None and attempts >= self.attempts:
            return GiveUp(
                f"this was failure {attempts + 1} without {format_millis(self.reset_ms)} of quiet, "
                f"and {PREFIX}exponential-delay.attempts-before-reset-backoff allows "
                f"{self.attempts}"
            )
        return RestartAfter(delay_ms)

    def _jittered_ms(self, attempts: int, random: float) -> int:
        delay_ms = self.delay_ms(attempts)
        spread = int(delay_ms * self.jitter)
        jittered = delay_ms - spread + int(random * (2 * spread + 1))
        return max(self.initial_ms, min(jittered, self.maximum_ms))

    def delay_ms(self, attempts: int) -> int:
        """Returns the delay after so many attempts, without jitter."""
        # Compared as logarithms, because the power overflows long before a job gives up.
        if attempts * math.log(self.multiplier) >= math.log(self.maximum_ms / self.initial_ms):
            return self.maximum_ms
        return int(self.initial_ms * self.multiplier**attempts)

    def describe(self) -> str:
        shortest, longest = format_millis(self.initial_ms), format_millis(self.maximum_ms)
        return f"exponential-delay {shortest} to {longest}"


def restart_strategy(configuration: Configuration, *, checkpointing: bool) -> RestartStrategy:
    """Makes the strategy that the configuration names.

    Args:
        configuration: Options of strategies that are not selected have no effect.
        checkpointing: Whether it is on; decides when no strategy is named.

    Raises:
        ConfigurationError: The name or an option is wrong.
    """
    name = configuration.get_enum(PREFIX + "type")
    if name is None:
        name = "exponential-delay" if checkpointing else "disable"
    strategy, options = _STRATEGIES[name]
    return strategy(*(configuration.read(f"{PREFIX}{name}.{option}") for option in options))


_STRATEGIES: Final[dict[str, tuple[Callable[..., RestartStrategy], tuple[str, ...]]]] = {
    "disable": (NoRestart, ()),
    "fixed-delay": (FixedDelay, ("attempts", "delay")),
    "failure-rate": (
        FailureRate,
        ("max-failures-per-interval", "failure-rate-interval", "delay"),
    ),
    "exponential-delay": (
        ExponentialDelay,
        (
            "initial-backoff",
            "max-backoff",
            "backoff-multiplier",
            "jitter-factor",
            "reset-backoff-threshold",
            "attempts-before-reset-backoff",
        ),
    ),
}
"""What makes each, and its options in the order of the arguments."""


def _at_least(option: str, value: float, least: float) -> None:
    if value < least:
        raise ConfigurationError(
            f"{PREFIX}{option} is {value}, but it must be at least {least}; raise it."
        )
