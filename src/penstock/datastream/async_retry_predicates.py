"""PyFlink's `datastream.async_retry_predicates`."""

from __future__ import annotations

from penstock.core.refused_names import facade
from penstock.operators.async_function import (
    empty_result_predicate as empty_result_predicate,
    exception_type_predicate as exception_type_predicate,
    has_exception_predicate as has_exception_predicate,
)

__getattr__ = facade(__name__)
