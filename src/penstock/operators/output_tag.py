"""Names of side outputs."""

from __future__ import annotations

from typing import Any

from penstock.core.copies import never_copy
from penstock.core.errors import ProgramError


class OutputTag:
    """Names a side output; two tags with one id are the same side output.

    Attributes:
        tag_id: The name, not empty.
        type_info: Type of the records, or None for any Python object.
    """

    in_use = False
    """Whether this process ever saw a tag. While it did not, no output can be a tagged pair, and
    operators skip the search for them."""

    def __init__(self, tag_id: str, type_info: Any = None) -> None:
        if not isinstance(tag_id, str) or not tag_id:
            raise ProgramError(
                f"an OutputTag needs a name that is not empty, but got {tag_id!r}. "
                'Write for example OutputTag("late-data").'
            )
        OutputTag.in_use = True
        self.tag_id = tag_id
        self.type_info = type_info

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OutputTag) and other.tag_id == self.tag_id

    def __hash__(self) -> int:
        return hash(self.tag_id)

    def __reduce__(self) -> tuple[Any, ...]:
        # Through __init__, so that a worker that only unpickles a tag knows of it too.
        return type(self), (self.tag_id, self.type_info)

    def __repr__(self) -> str:
        return f"OutputTag({self.tag_id!r})"


never_copy(OutputTag)


def as_output_tag(tag: Any) -> OutputTag:
    """Returns `tag`, or says what a side output is named by."""
    if isinstance(tag, OutputTag):
        return tag
    raise ProgramError(
        f"a side output is named by an OutputTag, but got {type(tag).__name__} {tag!r:.80}. "
        'Make one with OutputTag("name").'
    )
