"""A candidate for the tests of elections: leads, and writes as a leader until it is stopped.

Its log has one line for each thing that happened: `granted 3`, `revoked 3`, `wrote 3 17` (epoch,
version), `refused 3` (a write that was fenced).
"""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
from pathlib import Path

from penstock.core.configuration import Configuration
from penstock.core.errors import PenstockError
from penstock.core.versioned import Committed, Rejected
from penstock.files.local import LocalStorage
from penstock.files.records import open_record
from penstock.jobmanager.high_availability.coordination import open_high_availability


class Candidate:
    def __init__(self, settings: dict[str, str], work: str, log: Path) -> None:
        self.log = log.open("a", buffering=1)
        storage = LocalStorage(work)
        storage.make_directory("work")
        self.record = open_record(storage, "work")
        self.stopped = threading.Event()
        self.ids = itertools.count()
        services = open_high_availability(Configuration.from_dict(settings))
        assert services is not None
        self.services = services
        self.address = f"http://{log.stem}"

    def granted(self, epoch: int) -> None:
        print(f"granted {epoch}", file=self.log)
        self.services.job_store.take_over(epoch)
        while not self.stopped.is_set():
            # The check is made, then the process may be stopped for long, then it writes.
            if not self.services.election.is_leading(epoch):
                return
            self.write(epoch)

    def write(self, epoch: int) -> None:
        try:
            expected = self.record.read()
            outcome = self.record.compare_and_set(
                expected,
                b"%d" % epoch,
                leader_epoch=epoch,
                write_id=f"{os.getpid()}-{next(self.ids)}",
            )
        except PenstockError:
            return
        if isinstance(outcome, Committed):
            # Others may have written since, so it is not the current version that was ours.
            version = 1 if expected is None else expected.version + 1
            print(f"wrote {epoch} {version}", file=self.log)
        elif isinstance(outcome, Rejected) and outcome.fenced:
            print(f"refused {epoch}", file=self.log)

    def revoked(self, epoch: int) -> None:
        print(f"revoked {epoch}", file=self.log)

    def run(self) -> None:
        signal.signal(signal.SIGTERM, lambda *_: self.stopped.set())
        self.services.election.start(self, self.address)
        while not self.stopped.wait(0.1):
            pass
        self.services.election.stop()
        self.services.close()
        print("ended", file=self.log)


if __name__ == "__main__":
    Candidate(json.loads(sys.argv[1]), sys.argv[2], Path(sys.argv[3])).run()
