"""PyFlink's `common.job_execution_result`."""

from __future__ import annotations

from penstock.core.job import JobExecutionResult

__all__ = ["JobExecutionResult"]
