"""Which subtask owns a key: stable over processes, machines and restarts.

    key group = murmur(crc32(canonical bytes of the key)) mod max parallelism
    subtask   = key group * parallelism // max parallelism

Python's `hash()` is seeded per process and is never used. Keys that Python holds equal (`1`, `1.0`
and `True`; `0.0` and `-0.0`) have equal canonical bytes, since state tables compare with `==` too.
"""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import importlib
import math
import struct
import uuid
import zlib
from collections.abc import Sequence
from itertools import repeat
from typing import Any, Final

from penstock.core.errors import ProgramError

MIN_MAX_PARALLELISM: Final = 128
LIMIT_MAX_PARALLELISM: Final = 32768
LIMIT_KEY_BYTES: Final = 16 * 1024 * 1024

_BEGINNING: Final = datetime.datetime.combine(datetime.date.min, datetime.time())
_MASK: Final = 0xFFFFFFFF
_TEXT_CODE: Final = zlib.crc32(b"s")
"""Where the CRC of a text's canonical bytes goes on from."""


def murmur(code: int) -> int:
    """Flink's `MathUtils.murmurHash` of one 32-bit word; the result is not negative."""
    code = (code * 0xCC9E2D51) & _MASK
    code = ((code << 15) | (code >> 17)) & _MASK
    code = (code * 0x1B873593) & _MASK
    code = ((code << 13) | (code >> 19)) & _MASK
    code = (code * 5 + 0xE6546B64) & _MASK
    code ^= 4
    code ^= code >> 16
    code = (code * 0x85EBCA6B) & _MASK
    code ^= code >> 13
    code = (code * 0xC2B2AE35) & _MASK
    code ^= code >> 16
    if code & 0x80000000:
        # Java: a negative int is negated, except its minimum, which becomes 0.
        code = 0 if code == 0x80000000 else (1 << 32) - code
    return code


def key_group(key: Any, max_parallelism: int) -> int:
    """Returns the key group of `key`."""
    # The common types and the first rounds of `murmur` are written out here: a sender does this for
    # every key that it has not seen, and calls cost as much as the arithmetic.
    try:
        code = zlib.crc32(b"i%d" % key) if type(key) is int else zlib.crc32(canonical_bytes(key))
    except ValueError:
        # More digits than Python writes.
        code = zlib.crc32(canonical_bytes(key))
    code = (code * 0xCC9E2D51) & 0xFFFFFFFF
    code = ((((code << 15) | (code >> 17)) & 0xFFFFFFFF) * 0x1B873593) & 0xFFFFFFFF
    code = ((((code << 13) | (code >> 19)) & 0xFFFFFFFF) * 5 + 0xE6546B64) & 0xFFFFFFFF ^ 4
    code = ((code ^ (code >> 16)) * 0x85EBCA6B) & 0xFFFFFFFF
    code = ((code ^ (code >> 13)) * 0xC2B2AE35) & 0xFFFFFFFF
    code ^= code >> 16
    if code & 0x80000000:
        code = 0 if code == 0x80000000 else 0x100000000 - code
    return code % max_parallelism


@functools.cache
def numpy_if_there() -> Any:
    """Returns numpy, loaded when it is first needed, or None: it is an optional extra.

    It makes key groups of many keys several times as fast; the loop gives the same.
    """
    try:
        return importlib.import_module("numpy")
    except ImportError:
        return None


def key_groups_of_codes(codes: list[int], max_parallelism: int) -> Any:
    """Returns the key groups of CRCs of keys as a numpy array."""
    numpy = numpy_if_there()
    code = numpy.array(codes, dtype=numpy.uint32)
    code *= numpy.uint32(0xCC9E2D51)
    code = (code << numpy.uint32(15)) | (code >> numpy.uint32(17))
    code *= numpy.uint32(0x1B873593)
    code = (code << numpy.uint32(13)) | (code >> numpy.uint32(19))
    code *= numpy.uint32(5)
    code += numpy.uint32(0xE6546B64)
    code ^= numpy.uint32(4)
    code ^= code >> numpy.uint32(16)
    code *= numpy.uint32(0x85EBCA6B)
    code ^= code >> numpy.uint32(13)
    code *= numpy.uint32(0xC2B2AE35)
    code ^= code >> numpy.uint32(16)
    # Java's absolute value, in which the least number becomes 0.
    signed = numpy.abs(code.view(numpy.int32))
    signed[signed < 0] = 0
    return signed % numpy.int32(max_parallelism)


def owners_of(keys: Sequence[Any], parallelism: int, max_parallelism: int) -> list[int] | None:
    """Returns the subtask of each key, at C speed.

    Returns None where that cannot be had: without numpy, and for keys that are not all `int` or all
    `str`, or too long.
    """
    kinds = set(map(type, keys))
    if numpy_if_there() is None or kinds not in ({int}, {str}):
        return None
    try:
        if kinds == {int}:
            codes = [zlib.crc32(b"i%d" % key) for key in keys]
        else:
            if max(map(len, keys)) > LIMIT_KEY_BYTES // 4:
                return None
            codes = list(map(zlib.crc32, map(str.encode, keys), repeat(_TEXT_CODE)))
    except ValueError:
        # Surrogates alone, or more digits than Python writes.
        return None
    groups = key_groups_of_codes(codes, max_parallelism)
    owners: list[int] = (groups * parallelism // max_parallelism).tolist()
    return owners


def subtask_of(group: int, parallelism: int, max_parallelism: int) -> int:
    """Returns the subtask that owns a key group."""
    return group * parallelism // max_parallelism


def key_group_range(subtask: int, parallelism: int, max_parallelism: int) -> tuple[int, int]:
    """Returns the first and the last key group of a subtask, both inclusive."""
    first = (subtask * max_parallelism + parallelism - 1) // parallelism
    last = ((subtask + 1) * max_parallelism - 1) // parallelism
    return first, last


def default_max_parallelism(parallelism: int) -> int:
    """Returns Flink's default: 1.5 times the parallelism, rounded up to a power of two, clamped."""
    wanted = parallelism + parallelism // 2
    power = 1 << max(0, wanted - 1).bit_length()
    return min(max(power, MIN_MAX_PARALLELISM), LIMIT_MAX_PARALLELISM)


def canonical_bytes(key: Any) -> bytes:
    """Returns bytes that are equal exactly when keys are equal, on every machine.

    Raises:
        ProgramError: The key is NaN, longer than 16 MiB or of a type without stable bytes.
    """
    if type(key) is str:
        encoded = b"s" + key.encode("utf-8", "surrogatepass")
    elif type(key) is int:
        encoded = _whole(key)
    else:
        encoded = _encode(key)
    if len(encoded) > LIMIT_KEY_BYTES:
        raise ProgramError(
            f"a key has {len(encoded):,} bytes; the limit is {LIMIT_KEY_BYTES:,}. "
            "Key by a digest of the value instead."
        )
    return encoded


def _encode(key: Any) -> bytes:  # noqa: PLR0911, PLR0912 - one branch per type
    if key is None:
        return b"n"
    # A member that equals its value, as those of an IntEnum do, is encoded as that.
    if isinstance(key, enum.Enum) and type(key).__eq__ is object.__eq__:
        return b"e" + _frame(type(key).__qualname__.encode()) + _frame(key.name.encode())
    if isinstance(key, bool | int):
        return _whole(int(key))
    if isinstance(key, float):
        if math.isnan(key):
            raise ProgramError(
                "a key selector returned NaN, which is not equal to itself and so cannot name "
                "state. Map NaN to a value of your own before key_by."
            )
        if key.is_integer():
            return _whole(int(key))
        return b"f" + struct.pack(">d", key)
    if isinstance(key, str):
        return b"s" + key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes | bytearray):
        return b"b" + bytes(key)
    if isinstance(key, tuple):
        return b"t" + b"".join(_frame(_encode(part)) for part in key)
    if isinstance(key, frozenset):
        return b"z" + b"".join(sorted(_frame(_encode(part)) for part in key))
    if isinstance(key, decimal.Decimal):
        if key.is_nan():
            raise ProgramError("a key selector returned Decimal('NaN'); map it to another value.")
        return _decimal(key)
    if isinstance(key, datetime.date | datetime.time | datetime.timedelta):
        return _time(key)
    if isinstance(key, uuid.UUID):
        return b"u" + key.bytes
    if dataclasses.is_dataclass(key) and not isinstance(key, type):
        # Equal means: the same class and equal fields, as far as these are compared.
        values = [getattr(key, each.name) for each in dataclasses.fields(key) if each.compare]
        return b"D" + _frame(type(key).__qualname__.encode()) + _encode(tuple(values))
    parts = getattr(key, "__key_parts__", None)
    if parts is not None:
        return b"o" + _frame(type(key).__qualname__.encode()) + _encode(tuple(parts()))
    raise ProgramError(
        f"a key of type {type(key).__qualname__} has no stable hash. Keys may be str, int, float, "
        "bool, bytes, Decimal, dates and times, UUID, enums, Row, frozen dataclasses, and tuples "
        "of these; return one of them from the key selector (for a list: tuple(value); for a "
        "number of NumPy: value.item())."
    )


def _whole(number: int) -> bytes:
    try:
        return b"i%d" % number
    except ValueError:
        # More digits than Python writes: hexadecimal ones have no limit.
        return b"x%x" % number


def _decimal(key: decimal.Decimal) -> bytes:
    if key.is_finite() and key == key.to_integral_value():
        return _whole(int(key))
    if key == float(key):
        return _encode(float(key))
    digits = decimal.Context(max(28, len(key.as_tuple().digits)))
    return b"d" + str(key.normalize(digits)).encode()


def _time(key: datetime.date | datetime.time | datetime.timedelta) -> bytes:
    """Encodes times that are equal alike, whatever their class and time zone."""
    plain: datetime.date | datetime.time | datetime.timedelta
    offset = None
    if isinstance(key, datetime.timedelta):
        plain = datetime.timedelta(key.days, key.seconds, key.microseconds)
    elif isinstance(key, datetime.datetime):
        # What it is the second time in an hour that comes twice (fold) does not count for equality.
        plain = datetime.datetime.combine(
            datetime.date(key.year, key.month, key.day),
            datetime.time(key.hour, key.minute, key.second, key.microsecond),
        )
        offset = key.utcoffset()
    elif isinstance(key, datetime.time):
        plain = datetime.time(key.hour, key.minute, key.second, key.microsecond)
        offset = key.utcoffset()
    else:
        plain = datetime.date(key.year, key.month, key.day)
    name = type(plain).__name__.encode()
    if offset is not None and isinstance(plain, datetime.datetime | datetime.time):
        # As a span: the first and the last hours of all are none in UTC.
        if isinstance(plain, datetime.time):
            plain = datetime.datetime.combine(datetime.date.min, plain)
        plain = plain - _BEGINNING - offset
        name += b" in UTC"
    encoded = b"T" + name + b":" + repr(plain).encode()
    # Those of pandas count nanoseconds besides.
    rest = getattr(key, "nanosecond", 0) or getattr(key, "nanoseconds", 0)
    return encoded + b"+%d" % rest if rest else encoded


def _frame(part: bytes) -> bytes:
    return b"%d:" % len(part) + part
