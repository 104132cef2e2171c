"""PyFlink's `common.job_id`."""

from __future__ import annotations

from penstock.core.job import JobID

__all__ = ["JobID"]
