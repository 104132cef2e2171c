"""Job ids as users give them: 32 hex digits, or the first six or more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.cli.failures import RequestFailedError, WrongUsageError

if TYPE_CHECKING:
    from penstock.cli.rest_client import RestClient

_DIGITS: Final = 32
_FEWEST: Final = 6


def checked_job_id(text: str) -> str:
    """Returns an id or the beginning of one, in lower case.

    Raises:
        WrongUsageError: It is neither.
    """
    if re.fullmatch(rf"[0-9a-fA-F]{{{_FEWEST},{_DIGITS}}}", text):
        return text.lower()
    raise WrongUsageError(
        f'Cannot parse JobID from "{text}". The expected format is [0-9a-fA-F]{{32}}, e.g. '
        f"fd72014d4c864993a2e5a9287b4a9c5d, or its first {_FEWEST} or more digits."
    )


def resolve_job_id(client: RestClient, text: str) -> str:
    """Returns the whole id; asks the job manager only for the beginning of one."""
    given = checked_job_id(text)
    if len(given) == _DIGITS:
        return given
    jobs = client.get("/jobs/overview")["jobs"]
    found = sorted(job["jid"] for job in jobs if job["jid"].startswith(given))
    if not found:
        raise RequestFailedError(
            f"No job's id begins with {given}. See `penstock list -a` for the jobs that there are."
        )
    if len(found) > 1:
        raise RequestFailedError(
            f"{len(found)} jobs' ids begin with {given}: {', '.join(found)}. Give more digits."
        )
    return str(found[0])
