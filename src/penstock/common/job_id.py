"""PyFlink's `common.job_id`."""

from __future__ import annotations

from penstock.core.job import JobID as JobID
from penstock.core.refused_names import facade

__getattr__ = facade(__name__)
