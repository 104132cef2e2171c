"""PyFlink's `datastream.utils`: its names, which say what to use instead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from penstock.core.refused_names import names_of

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation

__getattr__ = names_of(__name__)


class ResultTypeQueryable(ABC):
    """Something that knows the type of its records."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Returns the type."""
