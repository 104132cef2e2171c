"""Partitioners and frames, against hand-worked deals and an independent model."""

from __future__ import annotations

import array
import datetime
import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from penstock.core.errors import ProgramError, UserFunctionError
from penstock.core.keygroups import key_group
from penstock.core.records import Batch
from penstock.graph.job_graph import Edge
from penstock.graph.nodes import (
    Broadcast,
    Custom,
    Forward,
    Global,
    KeyGroups,
    Rebalance,
    Rescale,
    Shuffle,
)
from penstock.runtime import partitioners
from penstock.runtime.exchange import BatchCodec, ExchangeWriter, Frame, FrameKind, decode_batch
from penstock.runtime.partitioners import make_partitioner, rescale_targets


def split(partitioning: Any, values: list[Any], targets: int, subtask: int = 0) -> dict[int, Any]:
    partitioner = make_partitioner(
        partitioning, subtask=subtask, parallelism=2, targets=targets, max_parallelism=128, name="x"
    )
    partitioner.begin_epoch(0, subtask)
    found: dict[int, Any] = {}
    for target, batch in partitioner.split(Batch(values)):
        found[target] = batch.values
    return found


def test_deals() -> None:
    values = [0, 1, 2, 3, 4]
    assert split(Forward(), values, 2, subtask=1) == {1: values}
    assert split(Global(), values, 3) == {0: values}
    assert split(Broadcast(), values, 2) == {0: values, 1: values}
    assert split(Rebalance(), values, 2) == {0: [0, 2, 4], 1: [1, 3]}
    assert split(Rebalance(), values, 3, subtask=1) == {1: [0, 3], 2: [1, 4], 0: [2]}
    # Subtask 1 starts at the second of its two targets.
    assert split(Rescale(), values, 4, subtask=1) == {3: [0, 2, 4], 2: [1, 3]}
    by_user = Custom(lambda key, count: key % count, lambda value: value)
    assert split(by_user, values, 3) == {0: [0, 3], 1: [1, 4], 2: [2]}


def test_round_robin_goes_on_where_the_last_batch_ended() -> None:
    partitioner = make_partitioner(
        Rebalance(), subtask=0, parallelism=1, targets=3, max_parallelism=128, name="x"
    )
    partitioner.begin_epoch(0, 0)
    dealt = [
        (target, batch.values)
        for part in ([1, 2], [3, 4])
        for target, batch in partitioner.split(Batch(part))
    ]
    assert dealt == [(0, [1]), (1, [2]), (2, [3]), (0, [4])]


def test_rescale_groups_are_local() -> None:
    assert [rescale_targets(sender, 2, 4) for sender in range(2)] == [[0, 1], [2, 3]]
    assert [rescale_targets(sender, 4, 2) for sender in range(4)] == [[0], [0], [1], [1]]
    for senders, targets in ((2, 3), (3, 2), (3, 5), (1, 4)):
        reached = {
            t for sender in range(senders) for t in rescale_targets(sender, senders, targets)
        }
        assert reached == set(range(targets))


def test_shuffle_is_a_function_of_epoch_and_subtask() -> None:
    values = list(range(1000))
    one, two = split(Shuffle(), values, 4), split(Shuffle(), values, 4)
    assert one == two
    assert Counter(v for part in one.values() for v in part) == Counter(values)
    assert all(200 < len(part) < 300 for part in one.values())


@given(st.lists(st.text() | st.integers() | st.tuples(st.integers(), st.text())), st.integers(1, 5))
def test_keys_go_to_the_owner_of_their_key_group(keys: list[Any], targets: int) -> None:
    edge = Edge(0, 0, 0, None, KeyGroups(lambda value: value[0]), 1, 0)
    partitioner = make_partitioner(
        edge.partitioning,
        subtask=0,
        parallelism=1,
        targets=targets,
        max_parallelism=128,
        name="x",
    )
    made = ExchangeWriter(edge, partitioner, targets, channel=0)
    frames: list[Frame] = []
    made.begin_epoch(0, 0, frames)
    records = [(key, number) for number, key in enumerate(keys)]
    made.write(Batch(records, list(range(len(records)))))
    made.flush()
    seen = 0
    for frame in frames:
        batch = decode_batch(frame.payload)
        assert batch.keys is not None and batch.timestamps is not None
        for (key, number), timestamp, carried in zip(
            batch.values, batch.timestamps, batch.keys, strict=True
        ):
            assert key_group(key, 128) * targets // 128 == frame.subtask
            assert (carried, timestamp) == (key, number)
            seen += 1
        assert batch.timestamps == sorted(batch.timestamps)
    assert seen == len(records)


@pytest.mark.parametrize("has_numpy", [True, False])
@pytest.mark.parametrize("targets", [1, 2, 3])
def test_a_sender_with_very_many_keys_sends_them_as_they_are(
    targets: int, has_numpy: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if has_numpy:
        pytest.importorskip("numpy")
    else:
        monkeypatch.setattr(partitioners, "numpy_if_there", lambda: None)
    monkeypatch.setattr(partitioners, "_MOST_PLAIN_KEYS", 5)
    monkeypatch.setattr(partitioners, "_MOST_KEYS", 12)
    edge = Edge(0, 0, 0, None, KeyGroups(lambda value: value), 1, 0)
    partitioner = make_partitioner(
        edge.partitioning, subtask=0, parallelism=1, targets=targets, max_parallelism=128, name="x"
    )
    made = ExchangeWriter(edge, partitioner, targets, channel=0)
    frames: list[Frame] = []
    made.begin_epoch(0, 0, frames)
    batches = [list(range(4)), list(range(9)), [7, 8, 9], ["a", 5.5, ("b", 1)], ["c", "d"], [1]]
    for batch in batches:
        made.write(Batch(batch))
    made.flush()
    for target in range(targets):
        received = [decode_batch(frame.payload) for frame in frames if frame.subtask == target]
        mine = [
            key
            for batch in batches
            for key in batch
            if key_group(key, 128) * targets // 128 == target
        ]
        assert [key for batch in received for key in batch.keys or ()] == mine
        assert [value for batch in received for value in batch.values] == mine
    assert partitioner.sends_keys is has_numpy  # type: ignore[attr-defined]
    with pytest.raises(ProgramError, match="returned NaN"):
        made.write(Batch([math.nan]))


def test_bad_keys_and_targets_name_the_record() -> None:
    with pytest.raises(ProgramError, match=r"list \[1\], which is not hashable.*\(\[1\], 2\)"):
        split(KeyGroups(lambda value: value[0]), [([1], 2)], 2)
    with pytest.raises(ProgramError, match="returned NaN"):
        split(KeyGroups(lambda value: math.nan), [1], 1)
    with pytest.raises(ProgramError, match="returned 7 for record 3; it must return an int"):
        split(Custom(lambda key, count: 7, lambda value: value), [3], 2)
    with pytest.raises(UserFunctionError, match="record: 'b'"):
        split(KeyGroups(lambda value: {"a": 1}[value]), ["a", "b", "c"], 2)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.dates(),
    lambda inner: (
        st.tuples(inner, inner)
        | st.lists(inner, max_size=3)
        | st.dictionaries(st.text(), inner, max_size=2)
    ),
    max_leaves=5,
)


@given(
    st.lists(st.tuples(VALUES, st.integers(-(2**63), 2**63 - 1), st.sampled_from(["a", "b", 3]))),
    st.booleans(),
    st.booleans(),
)
def test_batches_survive_the_trip(
    records: list[tuple[Any, int, Any]], with_times: bool, with_keys: bool
) -> None:
    names = ["a", 3, "b"]
    batch = Batch(
        [value for value, _, _ in records],
        [time for _, time, _ in records] if with_times else None,
        [names.index(key) for _, _, key in records] if with_keys else None,
    )
    back = decode_batch(BatchCodec(names).encode(batch))
    assert back.values == batch.values
    assert [type(value) for value in back.values] == [type(value) for value in batch.values]
    assert back.timestamps == batch.timestamps
    assert back.keys == ([key for _, _, key in records] if with_keys else None)


def test_repeated_keys_are_written_once() -> None:
    key = ("channel", "behaviour")
    payload = BatchCodec([None, key]).encode(Batch([0] * 1000, None, [1] * 1000))
    assert payload.count(b"behaviour") == 1
    assert decode_batch(payload).keys == [key] * 1000


def test_what_records_share_is_written_once_where_it_is_large() -> None:
    text = "x" * 10_000
    for shared in (text, [text], {"a": (text,)}):
        payload = BatchCodec().encode(Batch([(number, shared) for number in range(1000)]))
        assert len(payload) < 3 * len(text)
        assert decode_batch(payload).values[999] == (999, shared)


def test_a_record_that_holds_itself_is_sent() -> None:
    own: list[Any] = [1]
    own.append(own)
    for batch in ([own], [*range(99), own], [[1]] * 99 + [own]):
        *_, found = decode_batch(BatchCodec().encode(Batch(batch))).values
        assert found[0] == 1
        assert found[1] is found


def test_other_types_may_come_at_any_time() -> None:
    codec = BatchCodec()
    moments = [datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)]
    assert decode_batch(codec.encode(Batch(moments))).values == moments
    assert decode_batch(codec.encode(Batch([1, 2]))).values == [1, 2]


def writer(targets: int) -> tuple[ExchangeWriter, list[Frame]]:
    edge = Edge(4, 0, 0, None, Rebalance(), 9, 0)
    partitioner = make_partitioner(
        Rebalance(), subtask=0, parallelism=1, targets=targets, max_parallelism=128, name="x"
    )
    made = ExchangeWriter(edge, partitioner, targets, channel=3)
    frames: list[Frame] = []
    made.begin_epoch(0, 77, frames)
    return made, frames


MEGABYTE = 1 << 20


def data_frames(batches: list[Batch]) -> list[bytes]:
    """Returns the payloads that one target is sent."""
    made, frames = writer(1)
    for batch in batches:
        made.write(batch)
    made.flush()
    return [frame.payload for frame in frames]


def test_frames_end_after_a_megabyte() -> None:
    records = [bytes([number]) * MEGABYTE for number in range(20)]
    payloads = data_frames([Batch(records)])
    assert [decode_batch(payload).values for payload in payloads] == [[each] for each in records]


def test_frames_of_records_within_objects_and_containers_end_too() -> None:
    records: list[Any] = [{"id": number, "body": ["x" * MEGABYTE]} for number in range(10)]
    assert len(data_frames([Batch(records)])) == 10


def test_a_million_records_at_once_are_many_frames() -> None:
    stamps = list(range(1_000_000))
    payloads = data_frames([Batch(list(range(1_000_000)), stamps)])
    batches = [decode_batch(payload) for payload in payloads]
    assert max(len(batch) for batch in batches) <= 2_048
    assert [value for batch in batches for value in batch.values] == stamps
    assert [stamp for batch in batches for stamp in batch.timestamps or ()] == stamps


def test_few_large_records_among_many_small_ones_make_frames_shorter() -> None:
    # One in a hundred has a megabyte: no sample is sure to see it, but the frame before was large.
    batches = [
        Batch([b"y" * MEGABYTE if number % 100 == 7 else b"y" for number in range(1_000)])
        for _ in range(5)
    ]
    payloads = data_frames(batches)
    assert sum(len(payload) for payload in payloads) > 50 * MEGABYTE
    assert max(map(len, payloads[1:])) < 4 * MEGABYTE


def test_a_record_that_no_jvm_can_hold_is_named() -> None:
    edge = Edge(4, 0, 0, None, Forward(), 9, 0)
    partitioner = make_partitioner(
        Forward(), subtask=0, parallelism=1, targets=1, max_parallelism=128, name="x"
    )
    # As if arrays ended at a thousand bytes.
    made = ExchangeWriter(edge, partitioner, 1, channel=0, most_bytes=1_000)
    made.begin_epoch(0, 0, [])
    made.write(Batch([b"fits", b"z" * 5_000]))
    with pytest.raises(ProgramError, match=r"the record b'zzz.* has 5,\d+ bytes .* 1,000 bytes"):
        made.flush()


def test_records_before_a_watermark_stay_before_it() -> None:
    made, frames = writer(2)
    made.write(Batch([1, 2, 3], [10, 20, 30]))
    made.write(Batch([4]))
    made.write_watermark(25)
    made.write(Batch([5]))
    made.flush()
    # Channel 3 of epoch 0 starts at target 1.
    told = [
        (f.subtask, f.sequence, decode_batch(f.payload).values if f.kind == 0 else f.payload)
        for f in frames
    ]
    assert told == [
        (0, 0, [2, 4]),
        (0, 1, 25),
        (1, 0, [1, 3]),
        (1, 1, 25),
        (1, 2, [5]),
    ]
    assert {(f.stage, f.edge, f.channel, f.attempt) for f in frames} == {(9, 4, 3, 77)}
    assert {f.kind for f in frames} == {FrameKind.DATA, FrameKind.WATERMARK}


def test_what_an_aborted_epoch_held_back_is_dropped() -> None:
    made, _ = writer(1)
    made.write(Batch([1]))
    frames: list[Frame] = []
    made.begin_epoch(1, 78, frames)
    made.flush()
    assert frames == []


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    "make",
    [
        lambda np: np.int64(3),
        lambda np: np.float64(1.5),
        lambda np: np.str_("a"),
        lambda np: np.arange(3),
        lambda np: bytearray(b"ab"),
        lambda np: array.array("q", [1, 2]),
        lambda np: Text("a"),
        lambda np: datetime.timedelta(1),
    ],
)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: value,
        lambda value: (1, value),
        lambda value: ["a", [value, None]],
        lambda value: {"a": {"b": value}},
    ],
)
def test_frames_keep_types(make: Any, wrap: Any) -> None:
    """Also among records of built-in types, which are written in a way of their own."""
    value = make(pytest.importorskip("numpy"))
    codec = BatchCodec()
    for batch in ([wrap(1), wrap(value)], [wrap(value)] * 3):
        [*_, found] = decode_batch(codec.encode(Batch(batch))).values
        while found.__class__ in (tuple, list, dict):
            found = found["a"] if isinstance(found, dict) and "a" in found else found
            found = found["b"] if isinstance(found, dict) else found
            found = found[-1] if isinstance(found, tuple) else found
            found = found[1][0] if isinstance(found, list) else found
        assert type(found) is type(value)
        assert bytes(repr(found), "utf-8") == bytes(repr(value), "utf-8")


def test_keys_keep_types() -> None:
    np = pytest.importorskip("numpy")
    key = np.float64(2.5)
    [found] = decode_batch(BatchCodec([key]).encode(Batch([1], None, [0]))).keys or []
    assert type(found) is np.float64


nested = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@given(st.lists(nested), st.lists(nested))
def test_frames_hold_any_plain_value(first: list[Any], second: list[Any]) -> None:
    codec = BatchCodec()
    for values in (first, second):
        assert repr(decode_batch(codec.encode(Batch(values))).values) == repr(values)


def test_what_cannot_be_sent_is_shown() -> None:
    with pytest.raises(ProgramError, match=r"record \(2, <generator .* cannot be sent"):
        BatchCodec().encode(Batch([1, (2, (x for x in ()))]))
