"""PyFlink's `common.job_status`."""

from __future__ import annotations

from penstock.core.job import JobStatus
from penstock.core.refused_names import names_of

__all__ = ["JobStatus"]

__getattr__ = names_of(__name__)
