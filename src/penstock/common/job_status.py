"""PyFlink's `common.job_status`."""

from __future__ import annotations

from penstock.core.job import JobStatus

__all__ = ["JobStatus"]
