"""PyFlink's `datastream.async_retry_strategies`."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.operators.async_function import (
    NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy,
    NoRetryStrategy,
    RetryPredicate,
)

__all__ = [
    "NO_RETRY_STRATEGY",
    "ExponentialBackoffDelayRetryStrategy",
    "FixedDelayRetryStrategy",
    "NoRetryStrategy",
    "RetryPredicate",
]

__getattr__ = names_of(__name__)
