"""PyFlink's `datastream.async_retry_predicates`."""

from __future__ import annotations

from penstock.core.refused_names import names_of
from penstock.operators.async_function import (
    empty_result_predicate,
    exception_type_predicate,
    has_exception_predicate,
)

__all__ = ["empty_result_predicate", "exception_type_predicate", "has_exception_predicate"]

__getattr__ = names_of(__name__)
