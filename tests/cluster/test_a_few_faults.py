"""`make chaos MASTER=hosts` with three faults: one job suffers all of them."""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "chaos"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from hosts import spark_on_hosts
from hosts_campaign import LOST_SOON, HostsRun
from kill_campaign import Tally

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hosts import Hosts, SparkCluster

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]
FAULTS = ("Python daemon killed", "executor paused, shortly", "driver killed")


@pytest.fixture
def nervous_cluster(_can_have_hosts: None, tmp_path: Path) -> Iterator[tuple[Hosts, SparkCluster]]:
    with spark_on_hosts(tmp_path, 2, settings=LOST_SOON) as made:
        yield made


def test_a_job_survives_one_fault_after_the_other(
    nervous_cluster: tuple[Hosts, SparkCluster],
) -> None:
    tally = Tally()
    run = HostsRun(*nervous_cluster, random.Random(1), tally)
    for fault in FAULTS:
        # A host that was chosen may have nothing yet that it could strike.
        while fault not in tally.struck:
            assert run.suffer(fault)
    run.finish()
    assert dict(tally.struck) == dict.fromkeys(FAULTS, 1)
