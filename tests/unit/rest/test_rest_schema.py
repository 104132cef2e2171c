"""Requests made up from the interface's own document: nothing makes the service stumble."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from job_samples import facts
from served import PAGE, TOKEN, Service, served
from stored_jobs_dispatcher import JOB_ID, MemoryDispatcher, job_record

from penstock.core.job import JobStatus
from penstock.job.documents.job import job_view
from penstock.job.documents.metrics import metrics_view
from penstock.rest.server import create_app
from penstock.rest.settings import RestSettings

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = 4
PARTS = 8


@pytest.fixture(scope="module")
def operations() -> dict[str, Any]:
    # Not at the top: each process that collects the tests would import it and read the document.
    import schemathesis

    document = create_app(MemoryDispatcher(), RestSettings()).openapi()
    found = schemathesis.openapi.from_dict(document).get_all_operations()
    # A stream that does not end is no answer that could be checked.
    known = [each.ok() for each in found if not each.ok().path.endswith("/events")]
    return {operation.label: operation for operation in known}


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    dispatcher = MemoryDispatcher()
    job = facts()
    dispatcher.add(
        job_record(JOB_ID, "n", JobStatus.RUNNING, 1_000),
        job=job_view(job, 2_000),
        metrics=metrics_view(job, None, 2_000),
    )
    with served(dispatcher) as started:
        yield started


def test_the_document_lists_the_routes(operations: dict[str, Any]) -> None:
    assert len(operations) >= 40


@pytest.mark.parametrize("part", range(PARTS))
def test_no_request_makes_the_service_stumble(
    service: Service, operations: dict[str, Any], part: int
) -> None:
    for label in sorted(operations)[part::PARTS]:
        check_operation(service, operations[label])


def check_operation(service: Service, operation: Any) -> None:
    headers = PAGE | {"Authorization": f"Bearer {TOKEN}", "Host": "localhost"}
    statuses = []

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy())
    def check(case: Any) -> None:
        # What a generator makes up about hosts and tokens is another test's business.
        case.headers = {}
        case.cookies = {}
        address = f"http://127.0.0.1:{service.port}"
        answer = case.call(base_url=address, headers=headers, session=session)
        statuses.append(answer.status_code)
        assert answer.status_code < 500, f"{operation.label}: {answer.text}"
        if answer.status_code >= 400:
            assert answer.json()["errors"], operation.label

    with requests.Session() as session:
        check()
    assert statuses, operation.label
