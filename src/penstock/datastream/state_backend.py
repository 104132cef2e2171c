"""PyFlink's `datastream.state_backend`: how working state is kept, as settings."""

from __future__ import annotations

from enum import Enum
from typing import Final

from penstock.common.unsupported import unsupported_class, unsupported_method
from penstock.core.errors import ProgramError

__all__ = [
    "CustomStateBackend",
    "EmbeddedRocksDBStateBackend",
    "HashMapStateBackend",
    "PredefinedOptions",
    "StateBackend",
]

_ROCKSDB: Final = "state.backend.rocksdb."


class StateBackend:
    """A backend as the settings that it stands for."""

    def __init__(self, name: str) -> None:
        self.settings = {"state.backend.type": name}

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.settings == self.settings

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.settings.items())))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class HashMapStateBackend(StateBackend):
    """Keeps state as objects in memory."""

    def __init__(self) -> None:
        super().__init__("hashmap")


class PredefinedOptions(Enum):
    """Flink's ready-made tunings of RocksDB. Accepted and reported: Penstock tunes it itself."""

    DEFAULT = 0
    SPINNING_DISK_OPTIMIZED = 1
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = 2
    FLASH_SSD_OPTIMIZED = 3


class EmbeddedRocksDBStateBackend(StateBackend):
    """Keeps state in RocksDB on a local disk; it may be larger than memory."""

    def __init__(self, enable_incremental_checkpointing: bool | None = None) -> None:
        super().__init__("rocksdb")
        if enable_incremental_checkpointing not in (None, True, False):
            raise ProgramError(
                f"enable_incremental_checkpointing is {enable_incremental_checkpointing!r}; it "
                "must be None, True or False."
            )
        self._paths: list[str] = []
        if enable_incremental_checkpointing is not None:
            incremental = "true" if enable_incremental_checkpointing else "false"
            self.settings["execution.checkpointing.incremental"] = incremental

    def set_db_storage_paths(self, *paths: str) -> None:
        """Sets the directory of the databases; it should be fast and may vanish."""
        if len(paths) > 1:
            raise ProgramError(
                f"set_db_storage_paths() got {len(paths)} directories; give one. Several disks are "
                "best joined below the file system."
            )
        self._paths = [str(path) for path in paths]
        self.settings.pop(_ROCKSDB + "localdir", None)
        if paths:
            self.settings[_ROCKSDB + "localdir"] = self._paths[0]

    def get_db_storage_paths(self) -> list[str]:
        return list(self._paths)

    def is_incremental_checkpoints_enabled(self) -> bool:
        return self.settings.get("execution.checkpointing.incremental") == "true"

    def set_predefined_options(self, options: PredefinedOptions) -> None:
        """Reported as without effect unless it is DEFAULT."""
        self.settings[_ROCKSDB + "predefined-options"] = options.name

    def get_predefined_options(self) -> PredefinedOptions:
        return PredefinedOptions[self.settings.get(_ROCKSDB + "predefined-options", "DEFAULT")]

    set_options = unsupported_method(
        "datastream.state_backend.EmbeddedRocksDBStateBackend.set_options"
    )

    def get_options(self) -> None:
        """Returns None: there is no factory of options."""

    def get_number_of_transfer_threads(self) -> int:
        return int(self.settings.get(_ROCKSDB + "checkpoint.transfer.thread.num", "4"))

    def set_number_of_transfer_threads(self, number_of_transferring_threads: int) -> None:
        """Sets how many files are uploaded at once."""
        if number_of_transferring_threads < 1:
            raise ProgramError(
                f"the number of transfer threads is {number_of_transferring_threads}; it must be "
                "at least 1."
            )
        self.settings[_ROCKSDB + "checkpoint.transfer.thread.num"] = str(
            number_of_transferring_threads
        )


CustomStateBackend = unsupported_class(__name__, "CustomStateBackend")
