"""PyFlink's `common.restart_strategy`: what happens after a failure, as settings."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from penstock.core.configuration import AsSettings, checked_number
from penstock.core.refused_names import names_of
from penstock.core.times import format_millis, to_millis

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration

__getattr__ = names_of(__name__)

_PREFIX = "restart-strategy."


class RestartStrategyConfiguration(AsSettings):
    """A restart strategy as the settings that it stands for."""

    def __init__(self, description: str, settings: dict[str, str]) -> None:
        super().__init__(settings)
        self._description = description

    def get_description(self) -> str:
        return self._description

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._description})"


class RestartStrategies:
    """Makers of restart strategies, for `env.set_restart_strategy()`."""

    class NoRestartStrategyConfiguration(RestartStrategyConfiguration):
        """The first failure ends the job."""

        def __init__(self) -> None:
            super().__init__("Restart deactivated.", {_PREFIX + "type": "disable"})

    class FallbackRestartStrategyConfiguration(RestartStrategyConfiguration):
        """What the configuration says."""

        def __init__(self) -> None:
            super().__init__("Cluster level default restart strategy", {})

    class FixedDelayRestartStrategyConfiguration(RestartStrategyConfiguration):
        """A number of restarts, each after the same pause."""

        def __init__(self, restart_attempts: int, delay_between_attempts_interval: Any) -> None:
            self._attempts = checked_number(restart_attempts, "restart_attempts", 0)
            self._delay_ms = to_millis(delay_between_attempts_interval, "delay_between_attempts")
            delay = format_millis(self._delay_ms)
            super().__init__(
                f"Restart with fixed delay ({delay}). #{self._attempts} restart attempts.",
                {
                    _PREFIX + "type": "fixed-delay",
                    _PREFIX + "fixed-delay.attempts": str(self._attempts),
                    _PREFIX + "fixed-delay.delay": delay,
                },
            )

        def get_restart_attempts(self) -> int:
            return self._attempts

        def get_delay_between_attempts_interval(self) -> datetime.timedelta:
            return datetime.timedelta(milliseconds=self._delay_ms)

    class FailureRateRestartStrategyConfiguration(RestartStrategyConfiguration):
        """Restarts as long as failures are not too frequent."""

        def __init__(
            self, max_failure_rate: int, failure_interval: Any, delay_between_attempts_interval: Any
        ) -> None:
            self._rate = checked_number(max_failure_rate, "max_failure_rate", 0)
            self._interval_ms = to_millis(failure_interval, "failure_interval")
            self._delay_ms = to_millis(delay_between_attempts_interval, "delay_interval")
            interval, delay = format_millis(self._interval_ms), format_millis(self._delay_ms)
            super().__init__(
                f"Failure rate restart with maximum of {self._rate} failures within {interval} "
                f"and fixed delay {delay}.",
                {
                    _PREFIX + "type": "failure-rate",
                    _PREFIX + "failure-rate.max-failures-per-interval": str(self._rate),
                    _PREFIX + "failure-rate.failure-rate-interval": interval,
                    _PREFIX + "failure-rate.delay": delay,
                },
            )

        def get_max_failure_rate(self) -> int:
            return self._rate

        def get_failure_interval(self) -> datetime.timedelta:
            return datetime.timedelta(milliseconds=self._interval_ms)

        def get_delay_between_attempts_interval(self) -> datetime.timedelta:
            return datetime.timedelta(milliseconds=self._delay_ms)

    @staticmethod
    def no_restart() -> RestartStrategyConfiguration:
        return RestartStrategies.NoRestartStrategyConfiguration()

    @staticmethod
    def fall_back_restart() -> RestartStrategyConfiguration:
        return RestartStrategies.FallbackRestartStrategyConfiguration()

    @staticmethod
    def fixed_delay_restart(
        restart_attempts: int, delay_between_attempts: Any
    ) -> RestartStrategyConfiguration:
        return RestartStrategies.FixedDelayRestartStrategyConfiguration(
            restart_attempts, delay_between_attempts
        )

    @staticmethod
    def failure_rate_restart(
        failure_rate: int, failure_interval: Any, delay_interval: Any
    ) -> RestartStrategyConfiguration:
        """Makes a failure rate strategy; mind that the interval comes before the delay."""
        return RestartStrategies.FailureRateRestartStrategyConfiguration(
            failure_rate, failure_interval, delay_interval
        )


def restart_strategy_of(configuration: Configuration) -> RestartStrategyConfiguration:
    """Returns the strategy that a configuration names: the fall-back for none, and for others."""
    match configuration.get_enum(_PREFIX + "type"):
        case "disable":
            return RestartStrategies.no_restart()
        case "fixed-delay":
            prefix = _PREFIX + "fixed-delay."
            return RestartStrategies.fixed_delay_restart(
                configuration.get_integer(prefix + "attempts"),
                configuration.get_duration_ms(prefix + "delay"),
            )
        case "failure-rate":
            prefix = _PREFIX + "failure-rate."
            return RestartStrategies.failure_rate_restart(
                configuration.get_integer(prefix + "max-failures-per-interval"),
                configuration.get_duration_ms(prefix + "failure-rate-interval"),
                configuration.get_duration_ms(prefix + "delay"),
            )
    return RestartStrategies.fall_back_restart()
