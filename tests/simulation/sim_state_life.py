"""The life of one operator's keyed state: seeded random epochs, failures, restores and rescalings.

Real states of one backend, in as many subtasks as there are, do what the model does. Thresholds are
drawn for each life, so small that folds, merges, evictions and spills happen all the time; `seen`
counts them, so that a test can ask that it still meets them.
"""

from __future__ import annotations

import pickle
import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim_state_model import declared_states
from sim_state_work import GROUPS, KEYS, StateWork

from penstock.core.keygroups import key_group_range
from penstock.files.area import FileArea
from penstock.state.backend import create_backend, read_entries

if TYPE_CHECKING:
    from collections import Counter

    from penstock.core.handles import FileHandle, KeyedStateVersion

DECLARED = declared_states()
PARTS = 4


def small_thresholds(rng: random.Random, backend: str) -> dict[str, Any]:
    """Returns settings of a backend, each of them tiny in most lives and usual in some."""
    policy = {
        "max_deltas": rng.choice([1, 2, 3, 5]),
        "min_bytes": rng.choice([2_000, 20_000, 100_000]),
        "base_share": rng.choice([0.5, 1.0, 4.0]),
        "full_bytes": rng.choice([300, 3_000, 256 << 10]),
        "merged_bytes": rng.choice([500, 256 << 10]),
        "max_covered": rng.choice([1, 3, 64]),
    }
    if backend == "hashmap":
        return policy
    return {
        **policy,
        "memory_bytes": rng.choice([2_000, 50_000, 1 << 20]),
        "replay_bytes": rng.choice([2_000, 20_000, 1 << 20]),
        "merge_bytes": rng.choice([-1, 2_000, 6_000, 10_000]),
        "timers_in_memory": rng.choice([1, 4, 20]),
        "chunk_elements": rng.choice([1, 3, 1000]),
        "cached_list_bytes": rng.choice([0, 400, 1 << 20]),
        "whole_map_entries": rng.choice([1, 3, 64]),
        "min_expiry_rows": rng.choice([1, 10, 10_000]),
        "block_cache_bytes": 1 << 20,
        # At 0 and 0 a commit takes one step of a fold, which then lasts a dozen commits.
        "fold_slice_ms": rng.choice([0, 0, 60_000]),
        "fold_pace": rng.choice([0, 0, 4]),
    }


class ReadingArea(FileArea):
    """Knows what was read since it was asked."""

    names: list[str]

    def read(self, handle: FileHandle) -> bytes:
        self.names.append(handle.name)
        return super().read(handle)


class StateLife(StateWork):
    """One job's keyed state, from its first epoch on."""

    def __init__(self, seed: int, backend: str, directory: Path) -> None:
        # Few states at a time, so that what happens to one of them comes close together.
        super().__init__(random.Random(f"{seed} {backend}"), DECLARED[seed % PARTS :: PARTS])
        self.backend = backend
        self.settings = small_thresholds(self.rng, backend)
        self.root = directory
        self.directories = 0
        self.area = self.new_area()
        self.number = 0
        self.workers = self.new_workers(self.rng.randrange(1, 4))
        # A worker that held an earlier version, as Spark leaves it behind when it moves a task.
        self.lagging: list[Any] = []
        for worker in self.workers:
            worker.restore(())
        self.commits: list[tuple[bytes, int, list[KeyedStateVersion]]] = []

    def new_area(self) -> ReadingArea:
        self.directories += 1
        threshold = self.rng.choice([0, 300, 3_000])
        area = ReadingArea(self.root / str(self.directories), threshold)
        area.names = []
        return area

    def run(self, epochs: int) -> Counter[str]:
        for _ in range(epochs):
            self.epoch()
            happens = self.rng.random()
            if happens < 0.35:
                self.commit()
            elif happens < 0.4:
                self.lose_commit()
            elif happens < 0.45:
                self.fail()
            elif happens < 0.6:
                self.commit()
                self.move()
            elif happens < 0.65:
                self.commit()
                self.start_afresh(len(self.workers))
            elif happens < 0.7:
                self.commit()
                self.rescale()
            elif happens < 0.74:
                self.commit()
                self.savepoint()
            elif happens < 0.8 and len(self.commits) > 1:
                self.go_back()
            else:
                self.commit()
                self.check_stored()
        for key in KEYS:
            for ns in (None, *self.windows()):
                for declared in self.declared:
                    self.touch(key, ns, declared, reads=True)
        return self.seen

    # -- workers ------------------------------------------------------------------------------

    def new_workers(self, parallelism: int, backend: str = "") -> list[Any]:
        workers = []
        for index in range(parallelism):
            made = create_backend(backend or self.backend, **self.settings)
            first, last = key_group_range(index, parallelism, GROUPS)
            workers.append(made.create_state(first, last, GROUPS, self.area, self.clock, "op"))
            if self.rng.random() < 0.7:
                # Otherwise states are obtained after the restore, when they are first used.
                for declared in self.declared:
                    workers[-1].get_state(declared.descriptor)
        return workers

    def close(self) -> None:
        for worker in (*self.workers, *self.lagging):
            worker.close()
        shutil.rmtree(self.root, ignore_errors=True)

    # -- versions -----------------------------------------------------------------------------

    def commit(self) -> None:
        self.number += 1
        before = self.commits[-1][2] if self.commits else []
        versions = [
            worker.commit(f"e{self.number}-{index}") for index, worker in enumerate(self.workers)
        ]
        # Versions travel to the driver and come back.
        versions = pickle.loads(pickle.dumps(versions))
        self.seen["committed"] += 1
        bases = {version.base_id for version in before}
        for version in versions:
            self.seen["folded"] += bool(version.base_id) and version.base_id not in bases
            if version.deltas and version.delta_ids[-1] == version.version_id:
                self.seen["merged"] += version.deltas[-1].name.endswith(".merged")
        self.commits.append((self.model.frozen(), self.watermark, versions))
        del self.commits[:-4]
        self.clean_up()

    def clean_up(self) -> None:
        """Deletes what no retained version names, as the clean-up of checkpoints does."""
        names = {
            file.name for _, _, versions in self.commits for one in versions for file in one.files
        }
        for path in self.area.directory.iterdir():
            if path.is_file() and path.name not in names:
                path.unlink()
                self.seen["file deleted"] += 1

    def restore(self, back: int = 1) -> None:
        """Has the workers restore a version; theirs, or one of other key groups."""
        frozen, self.watermark, versions = self.commits[-back]
        self.model = pickle.loads(frozen)
        self.model.now_ms = self.clock.now_ms
        del self.commits[len(self.commits) - back + 1 :]
        for index, worker in enumerate(self.workers):
            is_same = len(versions) == len(self.workers)
            worker.restore((versions[index],) if is_same else versions)

    def replace_workers(self, workers: list[Any]) -> None:
        for worker in self.lagging:
            worker.close()
        self.lagging, self.workers = self.workers, workers

    def lose_commit(self) -> None:
        """What an attempt committed that did not count is on disk and in a worker's memory."""
        if not self.commits:
            return
        for worker in self.workers:
            worker.commit(f"e{self.number + 1}-{self.workers.index(worker)}")
        self.seen["commit lost"] += 1
        if self.rng.random() < 0.5:
            # The attempt's workers live on, and will meet its successor's version of the same id.
            self.replace_workers(self.new_workers(len(self.workers)))
        self.restore()

    def fail(self) -> None:
        if self.commits:
            self.seen["epoch failed"] += 1
            self.restore()

    def go_back(self) -> None:
        self.seen["went back"] += 1
        self.restore(back=2)

    def move(self) -> None:
        """Tasks run where they ran some epochs ago: workers catch up."""
        if len(self.lagging) != len(self.workers):
            self.replace_workers(self.new_workers(len(self.workers)))
            self.restore()
            self.seen["fresh worker"] += 1
            return
        self.lagging, self.workers = self.workers, self.lagging
        self.area.names.clear()
        self.restore()
        is_base_read = any(name.endswith((".base", ".rocksdb")) for name in self.area.names)
        self.seen["caught up by the base" if is_base_read else "caught up by deltas"] += 1

    def start_afresh(self, parallelism: int) -> None:
        self.replace_workers(self.new_workers(parallelism))
        self.restore()
        self.seen["fresh worker"] += 1

    def rescale(self) -> None:
        self.start_afresh(self.rng.randrange(1, 5))
        self.seen["rescaled"] += 1

    def savepoint(self) -> None:
        """Copies a version's files to another place, where another job starts from them."""
        versions = self.commits[-1][2]
        before, self.area = self.area, self.new_area()
        for version in versions:
            for file in version.files:
                if file.inline is None:
                    shutil.copyfile(before.path(file), self.area.path(file))
        del self.commits[:-1]
        if self.rng.random() < 0.3:
            self.through_the_other_backend(before)
        self.start_afresh(self.rng.choice([len(self.workers), 2]))
        for worker in self.lagging:
            worker.close()
        self.lagging = []
        shutil.rmtree(before.directory, ignore_errors=True)
        self.seen["savepoint"] += 1

    def through_the_other_backend(self, before: FileArea) -> None:
        """The job runs an epoch with the other backend and comes back."""
        other = {"hashmap": "rocksdb", "rocksdb": "hashmap"}[self.backend]
        settings, self.settings = self.settings, small_thresholds(self.rng, other)
        self.replace_workers(self.new_workers(self.rng.randrange(1, 4), other))
        self.restore()
        self.epoch()
        self.commit()
        self.settings = settings
        self.seen["other backend"] += 1

    def check_stored(self) -> None:
        """Whoever reads the stored version as data finds what is in the model."""
        frozen, _, versions = self.commits[-1]
        model = pickle.loads(frozen)
        timers: dict[str, list[Any]] = {"event_timer": [], "processing_timer": []}
        found: dict[Any, Any] = {}
        expiring = {declared.name for declared in DECLARED if declared.expires}
        for version in versions:
            for name, kind, key, ns, value in read_entries(version, self.area):
                if kind in timers:
                    timers[kind].append((value, key, ns))
                elif name not in expiring:
                    content = found.setdefault((name, key, ns), {})
                    if kind == "list":
                        content.update(enumerate(value, len(content)))
                    else:
                        place, single = value if kind == "map" else (0, value)
                        assert place not in content, "twice"
                        content[place] = single
        assert len(timers["event_timer"]) == len(model.event_timers)
        assert set(timers["event_timer"]) == model.event_timers
        assert len(timers["processing_timer"]) == len(model.processing_timers)
        assert set(timers["processing_timer"]) == model.processing_timers
        assert found == {
            owner: {place: value for place, (value, _) in content.items()}
            for owner, content in model.contents.items()
            if owner[0] not in expiring
        }
        self.seen["stored version read"] += 1
