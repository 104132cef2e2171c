"""DataFrames as sources: this only names one; `penstock.spark` decides how to read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.connectors.source import Boundedness
from penstock.core.errors import ProgramError

if TYPE_CHECKING:
    from penstock.core.columns import ColumnName


@dataclass(frozen=True, slots=True, eq=False)
class SparkSource:
    """A DataFrame of the user's."""

    df: Any  # The DataFrame, batch or streaming; never pickled.

    def __post_init__(self) -> None:
        if not (hasattr(self.df, "isStreaming") and hasattr(self.df, "schema")):
            raise ProgramError(f"from_spark needs a DataFrame, not {type(self.df).__name__}.")

    @property
    def boundedness(self) -> Boundedness:
        """Whether it ends; as of any source."""
        return Boundedness.CONTINUOUS_UNBOUNDED if self.is_streaming else Boundedness.BOUNDED

    @property
    def is_streaming(self) -> bool:
        """Whether it never ends."""
        return bool(self.df.isStreaming)

    def with_columns(self, columns: tuple[ColumnName, ...]) -> SparkSource:
        """Returns this source: the files that take its place have all columns."""
        return self
