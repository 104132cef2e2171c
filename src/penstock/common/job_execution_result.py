"""PyFlink's `common.job_execution_result`."""

from __future__ import annotations

from penstock.core.job import JobExecutionResult
from penstock.core.refused_names import names_of

__all__ = ["JobExecutionResult"]

__getattr__ = names_of(__name__)
