"""What a sink promises about records after a failure."""

from __future__ import annotations

from enum import Enum


class DeliveryGuarantee(Enum):
    """How often a record may reach the target."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    NONE = "none"
