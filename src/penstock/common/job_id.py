"""PyFlink's `common.job_id`."""

from __future__ import annotations

from penstock.core.job import JobID
from penstock.core.refused_names import names_of

__all__ = ["JobID"]

__getattr__ = names_of(__name__)
