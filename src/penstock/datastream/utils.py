"""PyFlink's `datastream.utils`: its names, which say what to use instead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from penstock.common.unsupported import unsupported_class

if TYPE_CHECKING:
    from penstock.core.types import TypeInformation

__all__ = [
    "ResultTypeQueryable",
    "convert_to_python_obj",
    "create_hadoop_configuration",
    "create_java_properties",
    "pickled_bytes_to_python_obj",
]

convert_to_python_obj = unsupported_class(__name__, "convert_to_python_obj")
create_hadoop_configuration = unsupported_class(__name__, "create_hadoop_configuration")
create_java_properties = unsupported_class(__name__, "create_java_properties")
pickled_bytes_to_python_obj = unsupported_class(__name__, "pickled_bytes_to_python_obj")


class ResultTypeQueryable(ABC):
    """Something that knows the type of its records."""

    @abstractmethod
    def get_produced_type(self) -> TypeInformation:
        """Returns the type."""
