"""PyFlink's `common.job_status`."""

from __future__ import annotations

from penstock.core.job import JobStatus as JobStatus
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
