"""PyFlink's `datastream.slot_sharing_group`: requested resources, which the plan shows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penstock.core.errors import ProgramError
from penstock.core.refused_names import names_of, refuses_methods

__getattr__ = names_of(__name__)


@refuses_methods
@dataclass(frozen=True, order=True)
class MemorySize:
    """A number of bytes."""

    bytes_size: int = 0

    def __post_init__(self) -> None:
        if self.bytes_size < 0:
            raise ProgramError(f"a memory size is {self.bytes_size} bytes; it must be at least 0.")

    @staticmethod
    def of_mebi_bytes(mebi_bytes: int) -> MemorySize:
        return MemorySize(mebi_bytes << 20)

    def get_bytes(self) -> int:
        return self.bytes_size

    def get_kibi_bytes(self) -> int:
        return self.bytes_size >> 10

    def get_mebi_bytes(self) -> int:
        return self.bytes_size >> 20

    def get_gibi_bytes(self) -> int:
        return self.bytes_size >> 30

    def get_tebi_bytes(self) -> int:
        return self.bytes_size >> 40

    def __str__(self) -> str:
        return f"{self.bytes_size} bytes"


@refuses_methods
@dataclass(frozen=True)
class SlotSharingGroup:
    """A named group of operators with the resources that it requests; the plan shows them.

    Spark gives resources to executors, not to groups of operators; see `spark.executor.*`.
    """

    name: str
    cpu_cores: float | None = None
    task_heap_memory: MemorySize | None = None
    task_off_heap_memory: MemorySize | None = None
    managed_memory: MemorySize | None = None
    external_resources: dict[str, float] = field(default_factory=dict, hash=False)

    def get_name(self) -> str:
        return self.name

    def get_managed_memory(self) -> MemorySize | None:
        return self.managed_memory

    def get_task_heap_memory(self) -> MemorySize | None:
        return self.task_heap_memory

    def get_task_off_heap_memory(self) -> MemorySize | None:
        return self.task_off_heap_memory

    def get_cpu_cores(self) -> float | None:
        return self.cpu_cores

    def get_external_resources(self) -> dict[str, float]:
        return dict(self.external_resources)

    @staticmethod
    def builder(name: str) -> SlotSharingGroup.Builder:
        return SlotSharingGroup.Builder(SlotSharingGroup(name))

    class Builder:
        """Collects the requested resources."""

        def __init__(self, group: SlotSharingGroup) -> None:
            self._group = group

        def set_cpu_cores(self, cpu_cores: float) -> SlotSharingGroup.Builder:
            if not cpu_cores > 0:
                raise ProgramError(f"cpu_cores is {cpu_cores!r}; it must be above 0.")
            self._group = replace(self._group, cpu_cores=cpu_cores)
            return self

        def set_task_heap_memory(self, task_heap_memory: MemorySize) -> SlotSharingGroup.Builder:
            if not task_heap_memory.get_bytes() > 0:
                raise ProgramError(f"task_heap_memory is {task_heap_memory}; it must be above 0.")
            self._group = replace(self._group, task_heap_memory=task_heap_memory)
            return self

        def set_task_heap_memory_mb(self, task_heap_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_task_heap_memory(MemorySize.of_mebi_bytes(task_heap_memory_mb))

        def set_task_off_heap_memory(
            self, task_off_heap_memory: MemorySize
        ) -> SlotSharingGroup.Builder:
            self._group = replace(self._group, task_off_heap_memory=task_off_heap_memory)
            return self

        def set_task_off_heap_memory_mb(
            self, task_off_heap_memory_mb: int
        ) -> SlotSharingGroup.Builder:
            return self.set_task_off_heap_memory(MemorySize.of_mebi_bytes(task_off_heap_memory_mb))

        def set_managed_memory(self, managed_memory: MemorySize) -> SlotSharingGroup.Builder:
            self._group = replace(self._group, managed_memory=managed_memory)
            return self

        def set_managed_memory_mb(self, managed_memory_mb: int) -> SlotSharingGroup.Builder:
            return self.set_managed_memory(MemorySize.of_mebi_bytes(managed_memory_mb))

        def set_external_resource(self, name: str, value: float) -> SlotSharingGroup.Builder:
            resources = {**self._group.external_resources, name: value}
            self._group = replace(self._group, external_resources=resources)
            return self

        def build(self) -> SlotSharingGroup:
            """Returns the group; resources are complete with cores and heap memory, as in Flink."""
            group = self._group
            needed = {"cpu_cores": group.cpu_cores, "task_heap_memory": group.task_heap_memory}
            missing = [name for name, value in needed.items() if value is None]
            has_others = group.task_off_heap_memory or group.managed_memory
            if missing and (len(missing) == 1 or has_others or group.external_resources):
                raise ProgramError(
                    f"the slot sharing group '{group.name}' has some resources, but no "
                    f"{' and no '.join(missing)}; set both, or no resources at all."
                )
            return group
