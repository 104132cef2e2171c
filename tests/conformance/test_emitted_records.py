"""Jobs whose functions go on with what they emitted: every consumer sees what was emitted.

Expected values are what a job gives that makes a new object for each record.
"""

from __future__ import annotations

import pytest
from programs.ways import WAYS, Way

from penstock.common import Types
from penstock.datastream import KeyedProcessFunction, OutputTag, ProcessFunction
from penstock.datastream.state import ValueStateDescriptor

ODD = OutputTag("odd")


def collected(stream):
    with stream.execute_and_collect() as results:
        return sorted(results, key=repr)


class Sums(KeyedProcessFunction):
    def open(self, runtime_context):
        self.state = runtime_context.get_state(
            ValueStateDescriptor("sums", Types.PICKLED_BYTE_ARRAY())
        )

    def process_element(self, value, ctx):
        sums = self.state.value() or {"key": value[0], "sum": 0}
        sums["sum"] += value[1]
        self.state.update(sums)
        yield sums


def mark(record):
    """Changes its input, as a function may that is given one."""
    record["sum"] *= 1000
    return record


@pytest.fixture(params=WAYS, ids=str)
def env(request):
    return request.param.environment()


def sums(env):
    records = [("a", 1), ("a", 2), ("b", 10), ("a", 3), ("b", 20)]
    return env.from_collection(records).key_by(lambda record: record[0]).process(Sums())


EXPECTED = [("a", 1), ("a", 3), ("a", 6), ("b", 10), ("b", 30)]


def pair(record):
    return record["key"], record["sum"]


def test_a_consumer_that_changes_records_changes_no_state(env):
    stream = sums(env).map(mark).map(pair)
    assert collected(stream) == [(key, value * 1000) for key, value in EXPECTED]


@pytest.mark.parametrize("first", ["changes", "reads"])
def test_one_of_two_consumers_changes_what_both_are_given(env, first):
    emitted = sums(env)
    branches = []
    for is_changing in (first == "changes", first != "changes"):
        branch = emitted.map(mark) if is_changing else emitted
        branches.append(branch.map(lambda record, c=is_changing: (c, *pair(record))))
    found = collected(branches[0].union(branches[1]))
    assert [record[1:] for record in found if not record[0]] == EXPECTED
    assert [record[1:] for record in found if record[0]] == [(k, v * 1000) for k, v in EXPECTED]


def test_an_exchange_beside_a_consumer_that_changes_records(env):
    emitted = sums(env)
    changed = emitted.map(mark).map(lambda record: (True, *pair(record)))
    kept = emitted.key_by(lambda record: record["key"]).map(lambda record: (False, *pair(record)))
    found = collected(changed.union(kept))
    assert [record[1:] for record in found if not record[0]] == EXPECTED


class Split(ProcessFunction):
    def __init__(self):
        self.out = {"key": "k", "sum": 0}

    def process_element(self, value, ctx):
        self.out["sum"] = value
        if value % 2:
            ctx.output(ODD, self.out)
        else:
            yield self.out


def test_consumers_of_a_side_output(env):
    main = env.from_collection([1, 2, 3, 4]).process(Split())
    odd = main.get_side_output(ODD)
    found = collected(
        odd.map(mark)
        .map(lambda record: ("changed", record["sum"]))
        .union(
            odd.map(lambda record: ("read", record["sum"])),
            main.map(lambda record: ("main", record["sum"])),
        )
    )
    assert found == [
        *(("changed", 1000), ("changed", 3000), ("main", 2), ("main", 4)),
        *(("read", 1), ("read", 3)),
    ]


def test_one_object_many_times_in_a_collection(env):
    def count(record):
        record["sum"] += 1
        return record["sum"]

    assert collected(env.from_collection([{"sum": 0}] * 3).map(count)) == [1, 1, 1]


class Filling(ProcessFunction):
    def __init__(self):
        self.out = {}

    def process_element(self, value, ctx):
        self.out["n"] = value
        yield self.out


@pytest.mark.parametrize("exchange", ["none", "key_by", "rebalance"])
def test_an_object_that_is_filled_again(env, exchange):
    stream = env.from_collection([1, 2, 3]).process(Filling())
    if exchange == "key_by":
        stream = stream.key_by(lambda record: record["n"])
    elif exchange == "rebalance":
        stream = stream.rebalance()
    assert collected(stream.map(lambda record: record["n"])) == [1, 2, 3]


class Counting(ProcessFunction):
    def __init__(self):
        self.out = {"n": 0}

    def process_element(self, value, ctx):
        self.out["n"] += 1
        yield self.out


def add_ten(record):
    record["n"] += 10
    return record["n"]


@pytest.mark.parametrize("setter", ["setting", "method"])
def test_object_reuse_hands_on_the_object_itself(setter):
    env = Way("hashmap", 1, None, True).environment()
    if setter == "method":
        env.get_config().enable_object_reuse()
    else:
        env.get_config().disable_object_reuse()
        env.configure(_reusing())
    # Whatever batches are made of them: three times the function adds 1, three times the consumer
    # adds 10 to the same object.
    stream = env.from_collection([1, 2, 3]).process(Counting())
    assert max(collected(stream.map(add_ten))) == 33
    copying = Way("hashmap", 1, None, True).environment()
    stream = copying.from_collection([1, 2, 3]).process(Counting())
    assert collected(stream.map(add_ten)) == [11, 12, 13]


def _reusing():
    from penstock.common import Configuration

    configuration = Configuration()
    configuration.set_string("pipeline.object-reuse", "true")
    return configuration
