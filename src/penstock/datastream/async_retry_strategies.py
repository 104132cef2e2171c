"""PyFlink's `datastream.async_retry_strategies`."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.operators.async_function import (
    NO_RETRY_STRATEGY as NO_RETRY_STRATEGY,
    ExponentialBackoffDelayRetryStrategy as ExponentialBackoffDelayRetryStrategy,
    FixedDelayRetryStrategy as FixedDelayRetryStrategy,
    NoRetryStrategy as NoRetryStrategy,
    RetryPredicate as RetryPredicate,
)

__getattr__ = facade(__name__)
