"""Elections on a real ZooKeeper of three servers, which get lost, come back, and are wiped."""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from ha_kit import Member, finish_job, results, start_job
from kazoo.client import KazooClient
from service_kit import is_alive, wait_for

from penstock.core.configuration import Configuration
from penstock.core.errors import ConfigurationError
from penstock.jobmanager.high_availability.coordination import HaServices, open_high_availability

sys.path.append(str(Path(__file__).resolve().parents[1]))
from zookeeper_quorum import Quorum

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SESSION_MS = 9_000
CLUSTER = "high-availability.cluster-id"
pytestmark = pytest.mark.e2e


class Manager:
    """A job manager's part in the election, in this process."""

    def __init__(self, name: str, settings: dict[str, str]) -> None:
        self.name = name
        self.story: list[tuple[str, int]] = []
        services = open_high_availability(Configuration.from_dict(settings))
        assert services is not None
        self.services: HaServices = services
        services.election.start(self, f"http://{name}")

    def granted(self, epoch: int) -> None:
        self.services.job_store.take_over(epoch)
        self.story.append(("granted", epoch))

    def revoked(self, epoch: int) -> None:
        self.story.append(("revoked", epoch))

    @property
    def epoch(self) -> int:
        return self.services.election.leadership().epoch

    def close(self) -> None:
        self.services.election.stop()
        self.services.close()


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    made = Quorum(tmp_path_factory.mktemp("quorum"))
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def settings(quorum: Quorum, tmp_path: Path, request: pytest.FixtureRequest) -> dict[str, str]:
    return {
        "high-availability.type": "zookeeper",
        "high-availability.storageDir": str(tmp_path / "ha"),
        CLUSTER: f"/{request.node.name}",
        "high-availability.zookeeper.quorum": quorum.hosts,
        "high-availability.zookeeper.client.session-timeout": f"{SESSION_MS} ms",
        "high-availability.zookeeper.client.connection-timeout": "20 s",
        "high-availability.zookeeper.client.retry-wait": "200 ms",
    }


@pytest.fixture
def managers(settings: dict[str, str]) -> Iterator[list[Manager]]:
    made: list[Manager] = []
    for name in ("a", "b"):
        made.append(Manager(name, settings))
        wait(lambda: leaders(made), "a leader")
    yield made
    threads = [threading.Thread(target=manager.close) for manager in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def leaders(managers: list[Manager]) -> list[Manager]:
    return [manager for manager in managers if manager.epoch]


def wait(condition: Callable[[], object], what: str) -> None:
    wait_for(condition, lambda: f"no {what}")


def test_servers_that_get_lost(quorum: Quorum, managers: list[Manager]) -> None:
    first, second = managers
    assert (first.epoch, second.epoch) == (1, 0)
    wait(lambda: second.services.election.leadership().leader_url == "http://a", "address")

    # One server of three may go: whoever was connected to it finds another one in time.
    gone = quorum.follower()
    quorum.kill(gone)
    deadline = time.monotonic() + 1.2 * SESSION_MS / 1000
    while time.monotonic() < deadline:
        assert first.epoch == 1
        time.sleep(0.02)

    # Without a majority nobody leads, although nobody says that the session is lost.
    other = quorum.follower()
    quorum.kill(other)
    wait(lambda: not leaders(managers), "end of the leadership")
    wait(lambda: ("revoked", 1) in first.story, "word of it")
    assert first.services.election.problem is not None
    # Others wait for the whole timeout before they believe that it is gone.
    wait(lambda: second.services.election.leadership().leader_url is None, "vacancy")

    # It heals: somebody leads, in a new epoch.
    quorum.start(gone, other)
    wait(lambda: leaders(managers), "leader after the majority is back")
    (leader,) = leaders(managers)
    assert leader.epoch > 1
    wait(lambda: ("granted", leader.epoch) in leader.story, "grant")
    assert leader.services.election.problem is None


def test_a_leader_in_order_hands_over_at_once(managers: list[Manager]) -> None:
    first, second = managers
    wait(lambda: first.story == [("granted", 1)], "grant")
    first.close()
    managers.remove(first)
    wait(lambda: second.epoch == 2, "successor")
    assert first.story == [("granted", 1), ("revoked", 1)]


def test_jobs_with_their_pointers_in_zookeeper(
    quorum: Quorum, settings: dict[str, str], tmp_path: Path
) -> None:
    first = Member(tmp_path / "a", **settings)
    wait_for(first.leads, first.said)
    second = Member(tmp_path / "b", **settings)
    try:
        wait_for(second.is_standby, second.said)
        job = start_job(first, tmp_path / "job")
        nodes = f"/flink{settings[CLUSTER]}/jobs/{job.job_id}"
        first.kill()
        wait_for(second.leads, second.said)
        job = job.on(second)
        job.wait_for_state("RUNNING")
        job.wait_for_checkpoint()
        # The records of checkpoints are nodes, and not beside the checkpoints.
        client = KazooClient(quorum.hosts, timeout=60, command_retry={"max_tries": -1})
        client.start(timeout=120)
        names = set(client.retry(client.get_children, nodes))
        assert names == {"checkpoints", "checkpoint_id_counter"}
        directory = tmp_path / "checkpoints" / job.job_id
        assert not [*directory.glob("pointer/*"), *directory.glob("counter/*")]

        # Without a majority nobody leads and nothing runs; with it the job goes on.
        driver = job.pid()
        lost = [quorum.follower(), quorum.leader()]
        for number in lost:
            quorum.kill(number)
        wait_for(lambda: second.role() is None, second.said)
        wait_for(lambda: not is_alive(driver), second.said)
        quorum.start(*lost)
        wait_for(second.leads, second.said)
        job.wait_for_state("RUNNING")
        job.wait_for_checkpoint()
        finish_job(job, tmp_path / "job")
        # With the job they go.
        wait_for(lambda: not client.retry(client.exists, nodes), second.said)
        assert results(tmp_path) == {job.job_id: "SUCCEEDED"}
        client.stop()
        client.close()
    finally:
        first.kill_all()
        second.kill_all()


def test_wiped_servers_start_nothing_afresh(
    quorum: Quorum, settings: dict[str, str], tmp_path: Path
) -> None:
    """The last test: the servers' data is gone afterwards."""
    manager = Manager("a", settings)
    wait(lambda: manager.story == [("granted", 1)], "grant")
    manager.close()
    for number in list(quorum.processes):
        quorum.kill(number)
    quorum.wipe()
    quorum.start()
    again = Manager("b", settings)
    try:
        wait(lambda: again.services.election.problem, "problem")
        problem = again.services.election.problem or ""
        assert "holds no lease, yet" in problem
        assert "/elected says that job managers have led here before" in problem
        assert again.story == []
        # Whoever really wants to begin anew can.
        (mark,) = tmp_path.glob("ha/*/elected")
        mark.unlink()
        wait(lambda: again.epoch == 1, "leader")
    finally:
        again.close()


def test_no_quorum_at_the_start(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="answered within 200 ms"):
        Manager(
            "a",
            {
                **settings,
                "high-availability.zookeeper.quorum": "127.0.0.1:1",
                "high-availability.zookeeper.client.connection-timeout": "200 ms",
            },
        )
