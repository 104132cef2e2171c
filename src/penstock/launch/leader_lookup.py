"""Finds the leading job manager for who only talks to it: reads the lease, takes no part."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.jobmanager.election.lease import decode_lease
from penstock.jobmanager.high_availability.settings import HaSettings
from penstock.launch.high_availability import LEASE, CoordinationRecords

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration


def find_leader_url(configuration: Configuration) -> str | None:
    """Returns where the leader's REST interface is, by its lease; None when nobody leads.

    The holder of a lease that was not given up may be dead: then nobody answers there until
    another one takes the lease over.

    Raises:
        ConfigurationError: Settings are missing, or ZooKeeper cannot be reached.
    """
    settings = HaSettings.from_configuration(configuration)
    if settings is None:
        return None
    records = CoordinationRecords(settings, configuration.to_dict())
    try:
        version = records.open(LEASE).read()
    finally:
        records.close()
    if version is None:
        return None
    lease = decode_lease(version)
    return None if lease.is_released else lease.address or None
