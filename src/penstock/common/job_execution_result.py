"""PyFlink's `common.job_execution_result`."""

from __future__ import annotations

from penstock.core.job import JobExecutionResult as JobExecutionResult
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
