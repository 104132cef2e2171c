"""Which subtask runs where: properties of the decision, and lives of whole clusters."""

from __future__ import annotations

import random
import threading
from collections import Counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from penstock.spark.homes import Executor, Executors, Home, assigned, homes_of, warn_of_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

LEVELS = st.lists(st.integers(1, 12), min_size=1, max_size=4).map(
    lambda widths: [(stage, index) for stage, width in enumerate(widths) for index in range(width)]
)
EXECUTORS = st.lists(st.integers(1, 4), min_size=1, max_size=6).map(
    lambda slots: [Executor(str(number), "host", each) for number, each in enumerate(slots)]
)


def spread(found: dict[tuple[int, int], Home], homes: list[Home]) -> int:
    held = Counter(found.values())
    return max(held[home] for home in homes) - min(held[home] for home in homes)


@given(LEVELS, EXECUTORS)
def test_each_subtask_has_a_home_and_homes_are_even(keys: Any, executors: Any) -> None:
    homes = homes_of(executors)
    found = assigned(keys, homes, {}, {})
    assert sorted(found) == sorted(keys)
    assert set(found.values()) <= set(homes)
    assert spread(found, homes) <= 1


@given(LEVELS, EXECUTORS, st.data())
def test_nothing_moves_while_executors_stay_however_state_grows(
    keys: Any, executors: Any, data: Any
) -> None:
    homes = homes_of(executors)
    found = assigned(keys, homes, {}, {})
    sizes = data.draw(st.dictionaries(st.sampled_from(keys), st.integers(0, 1 << 40)))
    assert assigned(keys, homes, found, sizes) == found


@given(LEVELS, EXECUTORS, st.data())
def test_only_subtasks_of_lost_executors_move(keys: Any, executors: Any, data: Any) -> None:
    found = assigned(keys, homes_of(executors), {}, {})
    left = data.draw(st.lists(st.sampled_from(executors), min_size=1, unique=True))
    homes = homes_of(left)
    after = assigned(keys, homes, found, {})
    moved = [key for key in keys if after[key] != found[key]]
    assert all(found[key] not in homes for key in moved)
    assert spread(after, homes) <= 1


@given(LEVELS, EXECUTORS, st.integers(1, 3), st.data())
def test_no_more_moves_than_new_executors_need(
    keys: Any, executors: Any, new: int, data: Any
) -> None:
    before = homes_of(executors)
    found = assigned(keys, before, {}, {})
    sizes = data.draw(st.dictionaries(st.sampled_from(keys), st.integers(0, 1 << 40)))
    homes = homes_of([*executors, *(Executor(str(100 + each), "new", 2) for each in range(new))])
    after = assigned(keys, homes, found, sizes)
    moved = [key for key in keys if after[key] != found[key]]
    # Nothing moves between those that stay, and the new ones hold what the balance gives them.
    assert all(after[key] not in before for key in moved)
    assert spread(after, homes) <= 1
    assert len(moved) == sum(home not in before for home in after.values())
    share = len(keys) // len(homes)
    assert len(moved) <= (share + 1) * (len(homes) - len(before))


def test_the_smallest_states_move_and_each_stage_gives_some() -> None:
    keys = [(stage, index) for stage in (0, 1) for index in range(4)]
    old, new = Home("1", 0), Home("2", 0)
    sizes = {(0, 0): 1, (0, 1): 9, (0, 2): 9, (0, 3): 1, (1, 0): 5, (1, 1): 500, (1, 2): 5}
    after = assigned(keys, [old, new], dict.fromkeys(keys, old), sizes)
    # Two of each stage: of the first those with 1 byte, of the second those with none and with 5.
    assert {key for key in keys if after[key] == new} in (
        {(0, 0), (0, 3), (1, 3), (1, 0)},
        {(0, 0), (0, 3), (1, 3), (1, 2)},
    )


def test_large_states_of_a_lost_executor_are_spread() -> None:
    keys = [(0, index) for index in range(4)]
    lost, one, two = Home("1", 0), Home("2", 0), Home("3", 0)
    sizes = {(0, 0): 100, (0, 1): 100, (0, 2): 1, (0, 3): 1}
    after = assigned(keys, [one, two], dict.fromkeys(keys, lost), sizes)
    assert after[0, 0] != after[0, 1]
    assert after[0, 2] != after[0, 3]


def test_few_subtasks_are_spread_over_executors_first() -> None:
    homes = homes_of([Executor("10", "a", 2), Executor("9", "b", 2)])
    assert homes == [Home("9", 0), Home("10", 0), Home("9", 1), Home("10", 1)]
    found = assigned([(0, 0), (0, 1)], homes, {}, {})
    assert {home.executor for home in found.values()} == {"9", "10"}


def test_a_host_with_an_underscore_does_not_hide_the_executor() -> None:
    # Spark reads executor_<host>_<id> up to the first underscore of the host.
    assert Executor("3", "my_host", 1).location == "executor_my-host_3"


@pytest.mark.parametrize("seed", range(20))
def test_a_life_of_a_cluster(seed: int) -> None:
    """Executors come and go; each keeps what ran on it last, as workers do.

    As many subtasks as possible find their state: all but those whose home went or that moved.
    """
    rng = random.Random(seed)
    keys = [(stage, index) for stage in range(3) for index in range(rng.choice((4, 16, 256)))]
    alive = {str(number): Executor(str(number), "h", 2) for number in range(4)}
    names = iter(range(4, 10_000))
    before: dict[tuple[int, int], Home] = {}
    worker: dict[Home, set[tuple[int, int]]] = {}
    hits = runs = moves = 0
    for epoch in range(400):
        if epoch % 40 == 39:
            if len(alive) > 1 and rng.random() < 0.6:
                del alive[rng.choice(sorted(alive))]
            else:
                name = str(next(names))
                alive[name] = Executor(name, "h", 2)
        homes = homes_of(alive.values())
        worker = {home: worker.get(home, set()) for home in homes}
        after = assigned(keys, homes, before, {})
        moves += sum(key in before and before[key] != home for key, home in after.items())
        for key, home in after.items():
            hits += key in worker[home]
            runs += 1
            worker[home].add(key)
        for home, held in worker.items():
            held &= {key for key in keys if after[key] == home}
        before = after
    assert runs - hits == len(keys) + moves
    assert hits / runs > 0.98


class _Application:
    """An application whose executors come one at each look."""

    def __init__(self, *looks: str) -> None:
        self._looks = list(looks)
        self.statusStore = lambda: self
        self.ids = ""

    def sc(self) -> _Application:
        return self

    def getExecutorIds(self) -> _Application:
        self.ids = self._looks.pop(0) if len(self._looks) > 1 else self._looks[0]
        return self

    def mkString(self, separator: str) -> str:
        return self.ids

    def executorList(self, active: bool) -> _Summaries:
        return _Summaries(self.ids.split())


class _Summaries:
    def __init__(self, ids: list[str]) -> None:
        self._ids = ids

    def size(self) -> int:
        return len(self._ids)

    def apply(self, index: int) -> _Summary:
        return _Summary(self._ids[index])


class _Summary:
    def __init__(self, name: str) -> None:
        self.id = lambda: name
        self.maxTasks = lambda: 1
        # Spark knows no port of an executor that has just come.
        self.hostPort = lambda: f"host-{name}" + (":1" if name != "0" else "")


class _Time(threading.Event):
    """A clock that goes on only while it is waited for."""

    now_s = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        self.now_s += timeout or 0.0
        return self.is_set()


def _waited(
    looks: Sequence[str],
    subtasks: int,
    before: set[str],
    master: str = "spark://a:1",
    enough: int = 0,
    **more: str,
) -> tuple[set[str], float]:
    """Returns the executors that an attempt begins with, and how long it has waited for them."""
    settings = [(f"spark.{name.replace('_', '.')}", text) for name, text in more.items()]
    conf = SimpleNamespace(getAll=lambda: settings)
    context: Any = SimpleNamespace(_jsc=_Application(*looks), master=master, getConf=lambda: conf)
    time = _Time()
    executors = Executors(context, lambda: time.now_s)
    executors.wait(subtasks, before, time, enough)
    return set(executors.known), time.now_s


def test_an_executor_that_has_just_come_has_its_host() -> None:
    context: Any = SimpleNamespace(
        _jsc=_Application("0 1"), master="yarn", getConf=lambda: SimpleNamespace(getAll=list)
    )
    executors = Executors(context)
    assert executors.have_changed()
    places = {executor: each.location for executor, each in executors.known.items()}
    assert places == {"0": "executor_host-0_0", "1": "executor_host-1_1"}


@pytest.mark.parametrize(
    ("looks", "subtasks", "before", "found", "least_s", "most_s"),
    [
        (["", "0", "0 1", "0 1 2"], 2, set(), {"0", "1"}, 0, 1),
        (["0", "0 1"], 8, {"0", "1"}, {"0", "1"}, 0, 1),
        # One was lost: there may be another soon, but not for sure.
        (["0", "0 2"], 2, {"0", "1"}, {"0", "2"}, 0, 1),
        (["0"], 8, {"0", "1"}, {"0"}, 2, 3),
        ([""], 8, set(), set(), 60, 61),
    ],
    ids=["a core for each subtask", "all of before", "a replacement", "no more come", "none come"],
)
def test_an_attempt_waits_for_its_executors(
    looks: list[str],
    subtasks: int,
    before: set[str],
    found: set[str],
    least_s: float,
    most_s: float,
) -> None:
    executors, waited_s = _waited(looks, subtasks, before)
    assert executors == found
    assert least_s <= waited_s <= most_s


LATE = ["", *["0"] * 200, "0 1"]
"""The second executor comes ten seconds after the first."""


@pytest.mark.parametrize(
    ("master", "settings"),
    [
        ("local-cluster[2,1,1024]", {}),
        ("local-cluster[2, 1, 1024]", {}),
        ("yarn", {}),
        ("yarn", {"executor_instances": "2"}),
        ("k8s://https://host:443", {"executor_instances": "2"}),
        ("spark://host:7077", {"cores_max": "2"}),
        ("spark://host:7077", {"cores_max": "5", "executor_cores": "2"}),
        ("spark://host:7077", {"cores_max": "4", "task_cpus": "2"}),
    ],
)
def test_an_attempt_waits_for_all_executors_that_the_settings_promise(
    master: str, settings: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "penstock.job"):
        executors, waited_s = _waited(LATE, 8, set(), master, **settings)
    assert executors == {"0", "1"}
    assert 10 < waited_s < 11
    (said,) = caplog.messages
    assert said.startswith("1 of 2 ")
    assert said.endswith("the job waits up to 30 s for the next.")


@pytest.mark.parametrize(
    ("before", "least_s", "most_s"),
    [(set(), 30, 31), ({"0", "9"}, 10, 11), ({"0"}, 0, 1)],
    ids=["at first", "after a loss", "as before"],
)
def test_an_attempt_does_not_wait_for_ever_for_executors_that_do_not_come(
    before: set[str], least_s: float, most_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    executors, waited_s = _waited(["0"], 8, before, "yarn", executor_instances="3")
    assert executors == {"0"}
    assert least_s <= waited_s <= most_s
    warned = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert [text.split(":")[0] for text in warned] == (
        ["1 of 3 executors are here (spark.executor.instances)"] if least_s else []
    )


@pytest.mark.parametrize(
    ("enough", "found", "least_s", "most_s"),
    [
        (1, {"0"}, 2, 3),
        # As long as the second one takes, and then for a third that may come with it.
        (2, {"0", "1"}, 12, 13),
        (3, {"0", "1"}, 40, 41),
    ],
)
def test_an_application_is_not_waited_for_to_have_more_than_the_one_before(
    enough: int, found: set[str], least_s: float, most_s: float, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", "penstock.job"):
        executors, waited_s = _waited(LATE, 8, set(), enough=enough, cores_max="6")
    assert executors == found
    assert least_s <= waited_s <= most_s
    last = caplog.messages[-1]
    assert last.startswith(f"{len(found)} of 6 cores are here (spark.cores.max): ")
    assert ("had no more when it ran last" in last) is (enough < 3)


@pytest.mark.parametrize(
    ("master", "settings"),
    [
        ("spark://host:7077", {}),
        ("spark://host:7077", {"executor_cores": "1"}),
        ("yarn", {"dynamicAllocation_enabled": "true"}),
        ("mesos://host", {}),
    ],
)
def test_where_no_setting_tells_the_number_a_short_silence_ends_the_wait(
    master: str, settings: dict[str, str]
) -> None:
    executors, waited_s = _waited(LATE, 8, set(), master, **settings)
    assert executors == {"0"}
    assert 2 < waited_s < 3


GOOD = {"shuffle_reduceLocality_enabled": "false"}


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({}, ["spark.shuffle.reduceLocality.enabled"]),
        (GOOD, []),
        ({**GOOD, "locality_wait": "0s"}, ["spark.locality.wait"]),
        ({**GOOD, "speculation": "true"}, ["spark.speculation"]),
        ({**GOOD, "speculation": "false", "locality_wait": "3s"}, []),
    ],
)
def test_settings_of_a_session_that_take_state_from_its_home(
    settings: dict[str, str], named: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    context: Any = SimpleNamespace(
        getConf=lambda: {f"spark.{name.replace('_', '.')}": text for name, text in settings.items()}
    )
    warn_of_settings(context)
    assert [message.split()[0] for message in caplog.messages] == named
