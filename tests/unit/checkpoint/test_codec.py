"""`_metadata`: what is written is read, and every damage is found."""

from __future__ import annotations

import hashlib
import pickle
import struct
from typing import Any

import msgspec
import pytest
from checkpoint_samples import (
    full_manifest,
    inline,
    keyed,
    manifest,
    operator,
    own,
    shared,
)
from hypothesis import given, settings, strategies as st

from penstock.checkpoint.codec import METADATA_MAGIC, decode_manifest, encode_manifest
from penstock.checkpoint.manifest import (
    ChunkCodec,
    ManifestKind,
    StoredChunk,
    SubtaskRecord,
)
from penstock.core.codec import DamagedError, NewerFormatError, from_extension, seal, to_stored
from penstock.core.errors import ProgramError

PLACE = "/ckpt/job/chk-3/_metadata"


def test_round_trip() -> None:
    written = full_manifest()
    data = encode_manifest(written)
    assert decode_manifest(data, PLACE) == written
    assert encode_manifest(decode_manifest(data, PLACE)) == data


def test_layout_of_the_envelope() -> None:
    """Taken apart by hand, without our own code."""
    data = encode_manifest(manifest(3))
    assert data[:8] == b"\x93PENSMET"
    assert struct.unpack(">H", data[8:10]) == (1,)
    body = data[10:-40]
    assert struct.unpack(">Q", data[-40:-32]) == (len(body),)
    assert data[-32:] == hashlib.sha256(data[:-32]).digest()
    assert msgspec.msgpack.decode(body) == {
        "job_id": "40dcc6d2ba90f13930abce295de8d038",
        "job_name": "word count",
        "checkpoint_id": 3,
        "kind": "checkpoint",
        "created_ms": 1_700_000_000_000,
        "leader_epoch": 1,
        "epoch": 7,
        "penstock_version": "0.1.0",
    }


def test_every_truncation_is_found() -> None:
    data = encode_manifest(full_manifest())
    for length in range(len(data)):
        with pytest.raises(DamagedError, match=PLACE):
            decode_manifest(data[:length], PLACE)
    for tail in (b"\0", data, data[-1:]):
        with pytest.raises(DamagedError, match=PLACE):
            decode_manifest(data + tail, PLACE)


def test_every_bit_flip_is_found() -> None:
    data = encode_manifest(full_manifest())
    for index in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[index] ^= 1 << bit
            # As damage: also a flip in the version is not taken for a newer format.
            with pytest.raises(DamagedError, match=PLACE):
                decode_manifest(bytes(flipped), PLACE)


def test_damage_names_both_checksums() -> None:
    data = bytearray(encode_manifest(manifest(3)))
    stored = bytes(data[-32:]).hex()
    data[20] ^= 1
    found = hashlib.sha256(bytes(data[:-32])).hexdigest()
    with pytest.raises(DamagedError) as caught:
        decode_manifest(bytes(data), PLACE)
    assert found in str(caught.value)
    assert stored in str(caught.value)


def test_a_newer_version_is_refused_by_number() -> None:
    newer = seal(METADATA_MAGIC, 2, b"whatever version 2 is")
    with pytest.raises(NewerFormatError, match=r"version 2, .* up to version 1"):
        decode_manifest(newer, PLACE)


def test_unknown_fields_are_ignored_and_missing_ones_are_not() -> None:
    body = msgspec.msgpack.decode(encode_manifest(manifest(3))[10:-40])
    newer = {**body, "added_later": {"x": 1}}
    data = seal(METADATA_MAGIC, 1, msgspec.msgpack.encode(newer))
    assert decode_manifest(data, PLACE) == manifest(3)
    del body["epoch"]
    with pytest.raises(DamagedError, match="epoch"):
        decode_manifest(seal(METADATA_MAGIC, 1, msgspec.msgpack.encode(body)), PLACE)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xc1",
        msgspec.msgpack.encode([1, 2]),
        msgspec.msgpack.encode({"job_id": 7}),
        b"\x91" * 100_000 + b"\xc0",
        msgspec.msgpack.encode({"sources": {"a": msgspec.msgpack.Ext(99, b"x")}}),
    ],
    ids=["empty", "reserved", "list", "type", "deep", "extension"],
)
def test_whole_but_malformed(body: bytes) -> None:
    with pytest.raises(DamagedError, match="malformed"):
        decode_manifest(seal(METADATA_MAGIC, 1, body), PLACE)


class Bomb:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (exec, ("raise SystemExit('the bomb went off')",))


def test_no_pickle_is_ever_run() -> None:
    bomb = pickle.dumps(Bomb())
    chunk = StoredChunk(name="evil", codec=ChunkCodec.PICKLE, handle=inline("evil", bomb))
    written = manifest(3, operator("a", SubtaskRecord(chunks=(chunk,))), job={"evil": bomb})
    read = decode_manifest(encode_manifest(written), PLACE)
    assert read.operators[0].subtasks[0].chunks[0].handle.inline == bomb
    with pytest.raises(ProgramError, match="not plain data"):
        encode_manifest(manifest(3, job={"evil": Bomb()}))
    with pytest.raises(DamagedError):
        decode_manifest(bomb, PLACE)


# -- contradictions ---------------------------------------------------------------------------


def broken(handle: Any, **changes: object) -> SubtaskRecord:
    return SubtaskRecord(keyed=keyed(msgspec.structs.replace(handle, **changes)))


@pytest.mark.parametrize(
    ("subtask", "text"),
    [
        (broken(own("a", b"x"), path="../../etc/passwd"), "its path is refused"),
        (broken(own("a", b"x"), path="/etc/passwd"), "its path is refused"),
        (broken(own("a", b"x"), path="a/../b"), "its path is refused"),
        (broken(own("a", b"x"), path="_metadata"), "the manifest itself"),
        (broken(shared("a", b"x", 1), path="shared/relative"), "not absolute"),
        (broken(shared("a", b"x", 1), path="/ckpt/../etc/passwd"), "not absolute"),
        (broken(shared("a", b"x", 1), path="/etc/passwd"), "not the place of a shared file"),
        (broken(shared("a", b"x", 1), path="/ckpt/shared/thesis.tex"), "not the place"),
        (broken(shared("a", b"x", 1), path=shared("a", b"y", 1).path), "another SHA-256"),
        (broken(own("a", b"x"), name="../evil"), "not the name of a file"),
        (broken(own("a", b"x"), sha256="00"), "is not a SHA-256"),
        (broken(own("a", b"x"), size_bytes=-1), "its length is -1"),
        (broken(own("a", b"x"), path=None), "neither bytes nor a path"),
        (broken(own("a", b"x"), inline=b"x"), "neither bytes nor a path"),
        (broken(inline("a", b"x"), inline=b"y"), "another SHA-256"),
        (broken(inline("a", b"x"), inline=b"xx"), "2 bytes inline, expected 1"),
        (broken(inline("a", b"x"), shared=True), "cannot be shared"),
        (
            SubtaskRecord(keyed=msgspec.structs.replace(keyed(), last_key_group=128)),
            "do not lie within 0 to 127",
        ),
        (
            SubtaskRecord(keyed=msgspec.structs.replace(keyed(), delta_ids=("v",))),
            "0 changes, but 1 ids",
        ),
    ],
)
def test_contradictions_in_a_subtask(subtask: SubtaskRecord, text: str) -> None:
    with pytest.raises(DamagedError, match=text):
        encode_manifest(manifest(3, operator("count", subtask)))


def test_all_contradictions_are_listed() -> None:
    wrong = manifest(
        0,
        operator("a", SubtaskRecord()),
        msgspec.structs.replace(operator("a"), parallelism=200),
        operator("b", broken(shared("f", b"x", 1))),
        kind=ManifestKind.SAVEPOINT_NATIVE,
        job_id="x",
        epoch=-1,
        parent_id=5,
    )
    with pytest.raises(DamagedError) as caught:
        encode_manifest(wrong)
    for text in (
        "job id 'x'",
        "checkpoint id is 0",
        "parent is 5",
        "epoch is negative",
        "'a' appears 2 times",
        "parallelism 200",
        "0 subtasks, but parallelism 200",
        "savepoint names shared files",
    ):
        assert text in str(caught.value)


def test_one_path_with_two_contents() -> None:
    first, second = own("a", b"x"), own("b", b"yy")
    both = SubtaskRecord(keyed=keyed(first, msgspec.structs.replace(second, path=first.path)))
    with pytest.raises(DamagedError, match="two different contents"):
        encode_manifest(manifest(3, operator("count", both)))


# -- plain data -------------------------------------------------------------------------------

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.text(st.characters(categories=["Cs", "L"]))
    | st.binary()
)
hashable = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=5,
)
plain = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.sets(hashable, max_size=3)
        | st.dictionaries(hashable, inner, max_size=3)
    ),
    max_leaves=10,
)


def same(left: Any, right: Any) -> bool:
    """Equal, of the same types all the way down, and of the same sign of zero."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        pairs = zip(left.items(), right.items(), strict=True)
        return len(left) == len(right) and all(same(a, b) for a, b in pairs)
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(repr(left) == repr(right)) if isinstance(left, float) else bool(left == right)


@given(plain)
@settings(max_examples=300)
def test_plain_data_comes_back_the_same(value: Any) -> None:
    data = msgspec.msgpack.encode(to_stored(value, "it"))
    assert same(msgspec.msgpack.Decoder(ext_hook=from_extension).decode(data), value)


class Name(str):
    __slots__ = ()


@pytest.mark.parametrize("value", [object(), Name("x"), 1j, range(3), [{"a": {1: (object(),)}}]])
def test_other_types_are_refused_by_name(value: Any) -> None:
    with pytest.raises(ProgramError, match=r"sink 'out' holds a .* not plain data"):
        encode_manifest(manifest(3, sinks={"out": value}))


def test_nesting_has_a_limit() -> None:
    value: Any = 1
    for _ in range(99):
        value = [value]
    encode_manifest(manifest(3, job={"x": value}))
    with pytest.raises(ProgramError, match="deeper than 100"):
        encode_manifest(manifest(3, job={"x": [[value]]}))
    value = []
    value.append(value)
    with pytest.raises(ProgramError, match="deeper than 100"):
        encode_manifest(manifest(3, job={"x": value}))
