"""PyFlink's `common.input_dependency_constraint`: kept for imports; Flink has no use left."""

from __future__ import annotations

from enum import Enum

from penstock.core.refused_names import names_of

__getattr__ = names_of(__name__)


class InputDependencyConstraint(Enum):
    """When a task of old batch jobs could start."""

    ANY = 0
    ALL = 1
