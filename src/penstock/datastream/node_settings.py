"""Name, uid, parallelism and the like: what can be set on a stream or sink after it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.core.duration import to_millis
from penstock.core.errors import ProgramError
from penstock.datastream.slot_sharing_group import SlotSharingGroup
from penstock.graph.nodes import Chaining, Node

if TYPE_CHECKING:
    from typing import Self

    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment

__all__ = ["NodeSettings"]


class NodeSettings:
    """Settings of the operator behind a stream; each call returns the stream again."""

    _environment: StreamExecutionEnvironment

    def _own_node_id(self) -> int:
        """Returns the node that settings are for, or says why there is none."""
        raise NotImplementedError

    @property
    def _node(self) -> Node:
        return self._environment._program.nodes[self._own_node_id()]

    def _change(self, **settings: Any) -> Self:
        self._environment._program.change(self._own_node_id(), **settings)
        return self

    def get_name(self) -> str:
        """Returns the name of the operator.

        Example:
            >>> env.from_collection([1]).map(str).get_name()
            'Map'
        """
        return self._node.name

    def name(self, name: str) -> Self:
        """Sets the name that logs, metrics and the web page show.

        Example:
            >>> env.from_collection([1]).map(str).name("to text").get_name()
            'to text'
        """
        if not isinstance(name, str) or not name.strip():
            raise ProgramError(f"a name is a text that is not empty, but got {name!r}.")
        return self._change(name=name)

    def uid(self, uid: str) -> Self:
        """Names the operator's state in checkpoints and savepoints; set it on everything stateful.

        A uid must be unique in the program and stay the same over its versions.

        Example:
            >>> counts = env.from_collection([1]).key_by(abs).sum().uid("counts")
        """
        self._environment._program.set_uid(self._own_node_id(), uid)
        return self

    def set_uid_hash(self, uid_hash: str) -> Self:
        """Names the operator's state by the hash that an earlier job logged; a last resort."""
        self._environment._program.set_uid_hash(self._own_node_id(), uid_hash)
        return self

    def set_parallelism(self, parallelism: int) -> Self:
        """Sets the number of subtasks of this operator.

        Example:
            >>> parallel = env.from_collection([1]).rebalance().map(str).set_parallelism(2)
        """
        self._environment._program.set_parallelism(self._own_node_id(), parallelism)
        return self

    def set_description(self, description: str) -> Self:
        """Sets the longer text that the plan shows."""
        return self._change(description=description)

    def disable_chaining(self) -> Self:
        """Keeps the operator in a stage of its own."""
        return self._change(chaining=Chaining.NEVER)

    def slot_sharing_group(self, slot_sharing_group: Any) -> Self:
        """Names a group of operators. It is shown in the plan; Spark has no slots to share."""
        name = getattr(slot_sharing_group, "get_name", lambda: slot_sharing_group)()
        if not isinstance(name, str):
            raise ProgramError(
                f"slot_sharing_group() takes a name or a SlotSharingGroup, not {name!r}."
            )
        if isinstance(slot_sharing_group, SlotSharingGroup):
            self._environment.register_slot_sharing_group(slot_sharing_group)
        else:
            self._environment._program.remark(
                f"slot_sharing_group('{name}') is shown in the plan and has no other effect: Spark "
                "has no slots, and operators share a worker where they are chained."
            )
        return self._change(slot_sharing_group=name)


class StreamSettings(NodeSettings):
    """What only streams have, and sinks have not."""

    def set_max_parallelism(self, max_parallelism: int) -> Self:
        """Sets the number of key groups, the limit of later rescaling."""
        self._environment._program.set_max_parallelism(self._own_node_id(), max_parallelism)
        return self

    def force_non_parallel(self) -> Self:
        """Fixes parallelism and max parallelism of this operator at 1."""
        return self._change(parallelism=1, max_parallelism=1, is_parallel=False)

    def start_new_chain(self) -> Self:
        """Begins a new stage with this operator; later ones may join it."""
        return self._change(chaining=Chaining.HEAD)

    def set_buffer_timeout(self, timeout_millis: int) -> Self:
        """Accepted and reported: records travel once per epoch, there are no buffers to flush."""
        to_millis(timeout_millis, "the buffer timeout")
        self._environment._program.remark(
            f"set_buffer_timeout({timeout_millis}) of '{self._node.name}' has no effect: records "
            "travel once per epoch; penstock.epoch.target-duration bounds their delay."
        )
        return self
