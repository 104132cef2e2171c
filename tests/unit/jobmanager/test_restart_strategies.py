"""Restart strategies at their edges."""

from __future__ import annotations

import pytest

from penstock.core.configuration import Configuration
from penstock.core.errors import ConfigurationError
from penstock.jobmanager.restart_strategies import (
    ExponentialDelay,
    FailureRate,
    FixedDelay,
    GiveUp,
    NoRestart,
    RestartAfter,
    RestartStrategy,
    restart_strategy,
)

MIDDLE = 0.5
"""With this random number there is no jitter."""


def play(strategy: RestartStrategy, *times_ms: int, random: float = MIDDLE) -> list[int | None]:
    """Returns the delay after each failure, None for giving up."""
    decisions = [strategy.failed(now_ms, random) for now_ms in times_ms]
    return [each.delay_ms if isinstance(each, RestartAfter) else None for each in decisions]


def test_disable_gives_up_at_once() -> None:
    decision = NoRestart().failed(0, MIDDLE)
    assert isinstance(decision, GiveUp)
    assert "restart-strategy.type" in decision.reason


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        (0, [None]),
        (1, [1_000, None]),
        (3, [1_000, 1_000, 1_000, None]),
    ],
)
def test_fixed_delay(attempts: int, expected: list[int | None]) -> None:
    assert play(FixedDelay(attempts), *range(0, 10_000 * len(expected), 10_000)) == expected


@pytest.mark.parametrize(
    ("max_failures", "times_s", "expected"),
    [
        # The default: one failure a minute is fine, two within it are not.
        (1, [0, 61], [1, 1]),
        (1, [0, 60], [1, None]),
        (1, [0, 1], [1, None]),
        (2, [0, 30, 61, 120], [1, 1, 1, 1]),
        (2, [0, 30, 60], [1, 1, None]),
        # Only the last failures count: 50, 55 and 109 lie within 60 s.
        (2, [0, 50, 55], [1, 1, None]),
        (2, [0, 50, 61, 109], [1, 1, 1, None]),
    ],
)
def test_failure_rate(max_failures: int, times_s: list[int], expected: list[int | None]) -> None:
    delays = play(FailureRate(max_failures), *(time * 1_000 for time in times_s))
    assert delays == [None if each is None else each * 1_000 for each in expected]


@pytest.mark.parametrize("make", [FixedDelay, FailureRate, ExponentialDelay, NoRestart])
@pytest.mark.parametrize("handed_over", [0, 1, 2, 3])
def test_another_process_goes_on_with_what_a_strategy_remembers(
    make: type[FixedDelay | FailureRate | ExponentialDelay | NoRestart], handed_over: int
) -> None:
    """Its clock is another one; its decisions are those of one process without an end."""
    times_ms = (0, 61_000, 62_500, 63_000, 125_000)
    whole = play(make(), *times_ms)
    first, second = make(), make()
    before = play(first, *times_ms[:handed_over])
    second.memory = first.memory.moved(-7_000)
    after = play(second, *(time_ms - 7_000 for time_ms in times_ms[handed_over:]))
    assert before + after == whole


def failing_at_once(strategy: RestartStrategy, count: int, random: float = MIDDLE) -> list[int]:
    """Fails one millisecond after each restart; returns the delays."""
    now_ms, delays = 0, []
    for _ in range(count):
        decision = strategy.failed(now_ms, random)
        assert isinstance(decision, RestartAfter)
        assert decision.is_new_attempt
        delays.append(decision.delay_ms)
        now_ms += decision.delay_ms + 1
    return delays


def test_exponential_delays_grow_to_a_minute() -> None:
    assert failing_at_once(ExponentialDelay(), 13) == [
        1_000,
        1_500,
        2_250,
        3_375,
        5_062,
        7_593,
        11_390,
        17_085,
        25_628,
        38_443,
        57_665,
        60_000,
        60_000,
    ]


def test_exponential_delays_never_overflow() -> None:
    strategy = ExponentialDelay(multiplier=10.0)
    assert failing_at_once(strategy, 2_000)[-1] == 60_000


@pytest.mark.parametrize(
    ("random", "expected"),
    [
        # 10 % down is 900, but never below the initial delay.
        (0.0, [1_000, 1_350, 2_025]),
        (MIDDLE, [1_000, 1_500, 2_250]),
        (0.999_999, [1_100, 1_650, 2_475]),
    ],
)
def test_jitter(random: float, expected: list[int]) -> None:
    assert failing_at_once(ExponentialDelay(), 3, random) == expected


def test_jitter_never_exceeds_the_maximum() -> None:
    strategy = ExponentialDelay(maximum_ms=1_600)
    assert failing_at_once(strategy, 3, 0.999_999) == [1_100, 1_600, 1_600]


def test_failures_before_the_planned_restart_belong_to_it() -> None:
    strategy = ExponentialDelay()
    assert strategy.failed(0, MIDDLE) == RestartAfter(1_000)
    assert strategy.failed(400, MIDDLE) == RestartAfter(600, is_new_attempt=False)
    assert strategy.failed(1_000, MIDDLE) == RestartAfter(0, is_new_attempt=False)
    # One millisecond later it is a failure of its own: the second delay, not the fourth.
    assert strategy.failed(1_001, MIDDLE) == RestartAfter(1_500)


@pytest.mark.parametrize(("quiet_ms", "delay_ms"), [(3_599_999, 1_500), (3_600_000, 1_000)])
def test_quiet_starts_anew(quiet_ms: int, delay_ms: int) -> None:
    strategy = ExponentialDelay()
    strategy.failed(0, MIDDLE)
    # Quiet counts from the planned restart, at 1,000.
    assert strategy.failed(1_000 + quiet_ms, MIDDLE) == RestartAfter(delay_ms)


def test_attempts_before_reset() -> None:
    limits = {"attempts": 2, "reset_ms": 100_000}
    assert play(ExponentialDelay(**limits), 0, 5_000, 10_000) == [1_000, 1_500, None]
    # With a quiet time in between the count starts anew.
    assert play(ExponentialDelay(**limits), 0, 5_000, 200_000, 210_000) == [
        1_000,
        1_500,
        1_000,
        1_500,
    ]


# -- configuration --------------------------------------------------------------------------------


def configured(*, checkpointing: bool = False, **values: str) -> RestartStrategy:
    keys = {key.replace("__", ".").replace("_", "-"): value for key, value in values.items()}
    configuration = Configuration.from_dict({f"restart-strategy.{k}": v for k, v in keys.items()})
    return restart_strategy(configuration, checkpointing=checkpointing)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("disable", NoRestart),
        ("none", NoRestart),
        ("off", NoRestart),
        ("fixed-delay", FixedDelay),
        ("fixeddelay", FixedDelay),
        ("Fixed-Delay", FixedDelay),
        ("failure-rate", FailureRate),
        ("failurerate", FailureRate),
        ("exponential-delay", ExponentialDelay),
        ("exponentialdelay", ExponentialDelay),
    ],
)
def test_names(name: str, kind: type) -> None:
    assert isinstance(configured(type=name), kind)


def test_default_depends_on_checkpointing() -> None:
    assert isinstance(configured(checkpointing=False), NoRestart)
    assert isinstance(configured(checkpointing=True), ExponentialDelay)


def test_old_key() -> None:
    configuration = Configuration.from_dict({"restart-strategy": "none"})
    assert isinstance(restart_strategy(configuration, checkpointing=True), NoRestart)


def test_options_of_another_strategy_have_no_effect() -> None:
    strategy = configured(type="none", fixed_delay__attempts="2")
    assert play(strategy, 0) == [None]


def test_options_are_read() -> None:
    fixed = configured(type="fixed-delay", fixed_delay__attempts="2", fixed_delay__delay="10 s")
    assert play(fixed, 0, 1, 2) == [10_000, 10_000, None]
    rate = configured(
        type="failure-rate",
        failure_rate__max_failures_per_interval="3",
        failure_rate__failure_rate_interval="5 min",
        failure_rate__delay="10 s",
    )
    assert play(rate, 0, 1, 2, 3) == [10_000, 10_000, 10_000, None]
    exponential = configured(
        type="exponential-delay",
        exponential_delay__initial_backoff="10 s",
        exponential_delay__max_backoff="2 min",
        exponential_delay__backoff_multiplier="2.0",
        exponential_delay__reset_backoff_threshold="10 min",
        exponential_delay__jitter_factor="0",
        exponential_delay__attempts_before_reset_backoff="3",
    )
    assert play(exponential, 0, 20_000, 50_000, 100_000) == [10_000, 20_000, 40_000, None]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"type": "sometimes"}, "must be one of disable, fixed-delay"),
        ({"type": "fixed-delay", "fixed_delay__attempts": "-1"}, "fixed-delay.attempts is -1"),
        ({"type": "fixed-delay", "fixed_delay__delay": "soon"}, "no span of time"),
        (
            {"type": "failure-rate", "failure_rate__max_failures_per_interval": "0"},
            "at least 1",
        ),
        (
            {"type": "exponential-delay", "exponential_delay__jitter_factor": "1.5"},
            "jitter-factor is 1.5",
        ),
        (
            {"type": "exponential-delay", "exponential_delay__backoff_multiplier": "1"},
            "above 1",
        ),
        (
            {"type": "exponential-delay", "exponential_delay__max_backoff": "10 ms"},
            "max-backoff is 10 ms",
        ),
    ],
)
def test_wrong_options(values: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        configured(**values)
