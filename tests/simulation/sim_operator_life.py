"""The life of operator state: lists, union lists and broadcast maps of an operator's subtasks.

The model is a list or a dictionary per subtask and state. What a rescaling gives to whom is
computed from Flink's description: runs of a list, all of a union, copies of a broadcast map.
"""

from __future__ import annotations

import copy
import pickle
import random
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.common.typeinfo import Types
from penstock.files.area import FileArea
from penstock.state.descriptors import ListStateDescriptor, MapStateDescriptor
from penstock.state.operator_snapshot import encode_logic, read_logic, schemas_of, write_states
from penstock.state.operator_state import OperatorState
from penstock.state.plain_serializer import Pickles

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.handles import FileHandle

LISTS = [ListStateDescriptor("list"), ListStateDescriptor("typed list", Types.LONG())]
UNIONS = [ListStateDescriptor("union"), ListStateDescriptor("typed union", Types.LONG())]
MAPS = [MapStateDescriptor("map"), MapStateDescriptor("typed map", Types.STRING(), Types.LONG())]

Contents = list[dict[str, Any]]
"""By subtask, by name of the state."""


class OperatorLife:
    """Operator state of one job, from its first epoch on."""

    def __init__(self, seed: int, directory: Path) -> None:
        self.rng = random.Random(seed)
        self.seen: Counter[str] = Counter()
        self.root = directory
        self.area = FileArea(directory / "0", self.rng.choice([0, 100, 1000]))
        self.number = 0
        self.workers = self.new_workers(self.rng.randrange(1, 4))
        self.model = [self.empty() for _ in self.workers]
        self.commits: list[tuple[Contents, list[tuple[FileHandle, tuple[FileHandle, ...]]]]] = []
        self.commit()

    def empty(self) -> dict[str, Any]:
        named = {each.name: [] for each in (*LISTS, *UNIONS)}
        return {**named, **{each.name: {} for each in MAPS}}

    def new_workers(self, parallelism: int) -> list[OperatorState]:
        workers = [OperatorState("op") for _ in range(parallelism)]
        for worker in workers:
            worker.restore((), 0, 1)
        return workers

    def run(self, epochs: int) -> Counter[str]:
        for _ in range(epochs):
            for _ in range(self.rng.choice([0, 0, 1, 2, 8])):
                self.act()
            happens = self.rng.random()
            if happens < 0.6:
                self.commit()
            elif happens < 0.7:
                self.seen["epoch failed"] += 1
                self.restore(self.workers)
            elif happens < 0.8:
                self.commit()
                self.seen["fresh worker"] += 1
                self.restore(self.new_workers(len(self.workers)))
            elif happens < 0.9:
                self.commit()
                self.rescale()
            else:
                self.commit()
                self.savepoint()
            self.compare()
        return self.seen

    # -- an epoch -----------------------------------------------------------------------------

    def act(self) -> None:
        rng = self.rng
        subtask = rng.randrange(len(self.workers))
        worker, model = self.workers[subtask], self.model[subtask]
        value: Any = rng.randrange(1000)
        if rng.random() < 0.5:
            descriptor = rng.choice(MAPS)
            state, entries = worker.get_broadcast_state(descriptor), model[descriptor.name]
            key = rng.choice("abcdefgh")
            if descriptor.type_info == (None, None):
                value = {"n": value}
            what = rng.random()
            if what < 0.2:
                state.remove(key)
                entries.pop(key, None)
            elif what < 0.25:
                state.clear()
                entries.clear()
            elif what < 0.5 and isinstance(entries.get(key), dict):
                # What the broadcasting side is given and changes in place is kept.
                state.get(key)["n"] = entries[key]["n"] = value["n"]
                self.seen["changed in place"] += 1
            else:
                state.put(key, value)
                entries[key] = copy.copy(value)
        else:
            descriptor = rng.choice([*LISTS, *UNIONS])
            is_union = descriptor in UNIONS
            obtain = worker.get_union_list_state if is_union else worker.get_list_state
            elements = obtain(descriptor)
            if rng.random() < 0.3:
                elements.update([value])
                model[descriptor.name] = [value]
            else:
                elements.add(value)
                model[descriptor.name].append(value)

    def compare(self) -> None:
        for worker, model in zip(self.workers, self.model, strict=True):
            for descriptor in LISTS:
                assert worker.get_list_state(descriptor).get() == model[descriptor.name]
            for descriptor in UNIONS:
                assert worker.get_union_list_state(descriptor).get() == model[descriptor.name]
            for maps in MAPS:
                found = worker.get_read_only_broadcast_state(maps)
                assert dict(found.items()) == model[maps.name]

    # -- versions -----------------------------------------------------------------------------

    def commit(self) -> None:
        self.number += 1
        before = {file for _, stored in self.commits[-1:] for _, files in stored for file in files}
        stored = []
        for subtask, worker in enumerate(self.workers):
            name = f"e{self.number}-{subtask}"
            own = encode_logic(self.number, None, None, Pickles.ALLOW, "op")
            logic = self.area.write(f"{name}.logic", own)
            files = write_states(worker, self.area, name, Pickles.ALLOW, "op")
            stored.append(pickle.loads(pickle.dumps((logic, files))))
            self.seen["changes written"] += len(files) > len(worker.facts())
            self.seen["written"] += sum(file not in before for file in files)
            self.seen["left as it was"] += sum(file in before for file in files)
        self.commits = [*self.commits[-2:], (copy.deepcopy(self.model), stored)]
        self.seen["committed"] += 1
        named = {
            file.name
            for _, kept in self.commits
            for logic, files in kept
            for file in (logic, *files)
        }
        for path in self.area.directory.iterdir():
            if path.name not in named:
                path.unlink()

    def restore(self, workers: list[OperatorState]) -> None:
        """Goes back to the latest version, as tasks do within a run."""
        model, stored = self.commits[-1]
        self.model = copy.deepcopy(model)
        self.workers = workers
        for worker, (logic, files) in zip(workers, stored, strict=True):
            (saved,) = read_logic([logic], [files], self.area, Pickles.ALLOW)
            worker.restore([saved.operator_state], 0, 1, saved.schemas, saved.files)
            self.seen["changes read"] += sum(len(each) > 1 for each in saved.files.values())

    def rescale(self) -> None:
        """Starts from the latest version as from a checkpoint, with any parallelism."""
        model, stored = self.commits[-1]
        self.workers = self.new_workers(self.rng.randrange(1, 5))
        handles, files = zip(*stored, strict=True)
        for index, worker in enumerate(self.workers):
            saved = read_logic(handles, files, self.area, Pickles.ALLOW)
            olds = [each.operator_state for each in saved]
            worker.restore(olds, index, len(self.workers), schemas_of(saved))
        self.model = self.dealt(model, len(self.workers))
        self.seen["rescaled"] += len(self.workers) != len(model)
        self.commit()

    def dealt(self, old: Contents, parallelism: int) -> Contents:
        new = [self.empty() for _ in range(parallelism)]
        for descriptor in UNIONS:
            for each in new:
                each[descriptor.name] = [one for part in old for one in part[descriptor.name]]
        for descriptor in MAPS:
            for index, each in enumerate(new):
                each[descriptor.name] = copy.deepcopy(old[index % len(old)][descriptor.name])
        extra = 0
        # The extras of a state go to the subtasks behind those that got the last state's.
        for descriptor in sorted(LISTS, key=lambda one: one.name):
            elements = [one for part in old for one in part[descriptor.name]]
            if len(old) == parallelism:
                for part, each in zip(old, new, strict=True):
                    each[descriptor.name] = list(part[descriptor.name])
                continue
            sizes = [len(elements) // parallelism] * parallelism
            for _ in range(len(elements) % parallelism):
                sizes[extra % parallelism] += 1
                extra += 1
            for size, each in zip(sizes, new, strict=True):
                each[descriptor.name], elements = elements[:size], elements[size:]
        return new

    def savepoint(self) -> None:
        """The version's files are copied to another place, and a job starts from them there."""
        before, self.area = self.area, FileArea(self.root / str(self.number), 0)
        for logic, files in self.commits[-1][1]:
            for file in (logic, *files):
                if file.inline is None:
                    shutil.copyfile(before.path(file), self.area.path(file))
        del self.commits[:-1]
        self.rescale()
        del self.commits[:-1]
        shutil.rmtree(before.directory)
        self.seen["savepoint"] += 1
