"""How long to wait before something that failed is tried again."""

from __future__ import annotations

from typing import Final

_FIRST_MS: Final = 100
_LONGEST_MS: Final = 5_000


def retry_delay_ms(retries: int) -> int:
    """Returns the pause before retry number `retries` (from 0): 100 ms doubling up to 5 s."""
    return min(_FIRST_MS << min(retries, 10), _LONGEST_MS)
