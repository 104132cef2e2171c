"""Exactly-once by pending output and a marker: whatever is repeated, lost or away, shows once."""

from __future__ import annotations

import itertools
import pickle
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer

from penstock.common import SimpleStringSchema
from penstock.connectors.kafka import publishing
from penstock.connectors.sink import CommitContext, Committer, WriterContext
from penstock.core.codec import to_stored
from penstock.core.errors import JobExecutionError
from penstock.datastream.connectors import DeliveryGuarantee
from penstock.datastream.connectors.kafka import KafkaRecordSerializationSchema, KafkaSink
from penstock.files.area import FileArea

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from kafka_broker import Broker

BIG = "x" * 30_000  # Too large for a committable: it goes to a file.
_jobs = itertools.count(1)


class Job:
    """Writes and commits as the runtime does."""

    def __init__(self, kafka: Broker, topic: str, scratch: Path, **properties: str) -> None:
        schema = KafkaRecordSerializationSchema.builder().set_topic(topic)
        builder = (
            KafkaSink.builder()
            .set_bootstrap_servers(kafka.address)
            .set_record_serializer(
                schema.set_value_serialization_schema(SimpleStringSchema()).build()
            )
            .set_delivery_guarantee(DeliveryGuarantee.EXACTLY_ONCE)
        )
        for key, value in properties.items():
            builder.set_property(key.replace("_", "."), value)
        self.sink: KafkaSink = pickle.loads(pickle.dumps(builder.build()))
        self.area = FileArea(scratch)
        self.job_id = f"{next(_jobs):032x}"
        self.kafka, self.topic = kafka, topic

    def write(
        self, epoch: int, *values: str, subtask: int = 0, attempt: tuple[int, int] = (1, 0)
    ) -> list[Any]:
        writer = self.sink.create_writer(
            WriterContext(
                job_id=self.job_id,
                uid="sink",
                subtask=subtask,
                parallelism=2,
                epoch=epoch,
                attempt_id=f"{self.job_id[:8]}-{attempt[0]}.{attempt[1]}-{epoch}-7",
                now_ms=0,
                scratch_dir="",
                attempt=attempt,
                area=self.area,
            )
        )
        writer.write(list(values), None, 0)
        committables = writer.prepare_commit()
        writer.close()
        to_stored(committables, "committables")
        copy: list[Any] = pickle.loads(pickle.dumps(committables))
        return copy

    def committer(self, state: Any = None) -> Committer:
        committer = self.sink.create_committer()
        committer.restore(state)
        return committer

    def context(self, epoch: int) -> CommitContext:
        return CommitContext(self.job_id, "sink", epoch, epoch, False, 0, area=self.area)

    def visible(self) -> list[str]:
        return [value.decode() for value in self.kafka.values(self.topic)]

    def pending(self) -> list[Path]:
        return list(self.area.directory.glob("*.pending.*"))


@pytest.fixture
def job(kafka: Broker, topic: Callable[..., str], tmp_path: Path) -> Job:
    return Job(kafka, topic(), tmp_path)


@pytest.mark.parametrize("text", ["", BIG])
def test_nothing_shows_before_the_commit(job: Job, text: str) -> None:
    committables = job.write(1, f"a{text}") + job.write(1, f"b{text}", subtask=1)
    assert job.visible() == []
    assert len(job.pending()) == (2 if text else 0)
    # Readers of everything see nothing either: no transaction is open.
    assert job.kafka.values(job.topic, isolation="read_uncommitted") == []
    committer = job.committer()
    committer.commit(committables, job.context(1))
    assert job.visible() == [f"a{text}", f"b{text}"]
    named = [handle for item in committables for handle in committer.files(item)]
    assert {handle.name for handle in named if handle.inline is None} == {
        path.name for path in job.pending()
    }
    committer.close()


@pytest.mark.parametrize("text", ["", BIG])
def test_a_commit_is_repeated_by_the_same_and_by_other_processes(job: Job, text: str) -> None:
    first, second = job.write(1, f"a{text}"), job.write(2, f"b{text}")
    committer = job.committer()
    before = committer.snapshot()
    for _ in range(2):
        committer.commit(first + second, job.context(2))
    to_stored(committer.snapshot(), "state")
    for state in (before, committer.snapshot()):
        again = job.committer(state)
        again.commit(first + second, job.context(2))
        again.commit([], job.context(3))
        again.close()
    committer.close()
    assert job.visible() == [f"a{text}", f"b{text}"]


def test_a_part_of_what_is_owed_was_published_by_the_checkpoint_before(job: Job) -> None:
    owed = [job.write(epoch, str(epoch)) for epoch in range(1, 6)]
    committer = job.committer()
    committer.commit(owed[0] + owed[1], job.context(2))
    committer.close()
    # The snapshot was taken before that commit, so it names its output as well.
    committer = job.committer()
    committer.commit(list(itertools.chain(*owed)), job.context(5))
    committer.close()
    assert job.visible() == ["1", "2", "3", "4", "5"]


def test_an_attempt_after_a_failure_writes_the_same_epochs_again(job: Job) -> None:
    committer = job.committer()
    committer.commit(job.write(5, "first"), job.context(5))
    # Back to an old checkpoint: epochs are lower, the attempt is higher.
    committer.commit(job.write(3, "second", attempt=(1, 1)), job.context(3))
    committer.commit(job.write(2, "third", attempt=(2, 0)), job.context(2))
    committer.close()
    assert job.visible() == ["first", "second", "third"]


def test_fewer_subtasks_publish_what_more_have_written(job: Job) -> None:
    """The driver publishes, whatever the parallelism was; each subtask's order stays."""
    committables = []
    for epoch in (1, 2):
        for subtask in range(4):
            committables += job.write(epoch, f"{subtask}:{epoch}", subtask=subtask)
    committer = job.committer()
    committer.commit(committables, job.context(2))
    committer.close()
    found = job.visible()
    assert sorted(found) == sorted(f"{n}:{epoch}" for n in range(4) for epoch in (1, 2))
    for subtask in range(4):
        mine = [value for value in found if value.startswith(f"{subtask}:")]
        assert mine == [f"{subtask}:1", f"{subtask}:2"]


def test_away_for_longer_than_the_timeout_of_a_transaction(
    kafka: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    job = Job(kafka, topic(), tmp_path, transaction_timeout_ms="1000")
    committables = job.write(1, "a", BIG)
    time.sleep(3)  # The thing itself: the broker would have aborted an open transaction by now.
    committer = job.committer()
    committer.commit(committables, job.context(1))
    committer.close()
    assert job.visible() == ["a", BIG]


def test_a_process_dies_inside_the_transaction(job: Job) -> None:
    """What it has sent is aborted by the next one, and readers do not wait for it."""
    (item,) = committables = job.write(1, "a")
    dead = Producer(
        {"bootstrap.servers": job.kafka.address, "transactional.id": item["transaction"]}
    )
    dead.init_transactions(60)
    dead.begin_transaction()
    dead.produce(job.topic, "a")
    dead.flush()
    committer = job.committer()
    committer.commit(committables, job.context(1))
    committer.close()
    assert job.visible() == ["a"]
    assert job.kafka.values(job.topic, isolation="read_uncommitted") == [b"a", b"a"]


def test_a_process_that_was_taken_for_dead_publishes_nothing_twice(job: Job) -> None:
    first, second = job.write(1, "a"), job.write(2, "b")
    slow, fast = job.committer(), job.committer()
    slow.commit(first, job.context(1))
    fast.commit(first + second, job.context(2))  # fences the slow one
    slow.commit(second, job.context(2))  # finds the marker
    slow.close()
    fast.close()
    assert job.visible() == ["a", "b"]


def test_two_jobs_go_on_from_one_savepoint(
    kafka: Broker, topic: Callable[..., str], tmp_path: Path
) -> None:
    """What the first one owes shows once, whoever is first; then each writes its own."""
    name = topic()
    first, second = Job(kafka, name, tmp_path), Job(kafka, name, tmp_path)
    owed = first.write(1, "owed", BIG)
    theirs = second.committer()
    theirs.commit(owed, second.context(1))
    ours = first.committer()
    ours.commit(owed + first.write(2, "ours"), first.context(2))
    theirs.commit(owed, second.context(1))
    theirs.commit(second.write(2, "theirs"), second.context(2))
    ours.close()
    theirs.close()
    assert kafka.values(name) == [b"owed", BIG.encode(), b"ours", b"theirs"]


def test_pending_output_that_was_deleted_is_an_error(job: Job) -> None:
    committables = job.write(1, BIG, "a")
    for path in job.pending():
        path.unlink()
    committer = job.committer()
    with pytest.raises(
        JobExecutionError, match=r"2 records that have not been committed.*\.pending\.0"
    ):
        committer.commit(committables, job.context(1))
    committer.close()
    assert job.visible() == []


def test_a_marker_that_has_expired_is_an_error_that_says_what_to_do(job: Job) -> None:
    first, second = job.write(1, "a"), job.write(2, "b")
    committer = job.committer()
    committer.commit(first, job.context(1))
    state = committer.snapshot()
    committer.close()
    (item,) = second
    group = item["transaction"]
    job.kafka.admin.delete_consumer_groups([group])[group].result()
    # Everything that is owed was published before the checkpoint: nothing is in doubt.
    committer = job.committer(state)
    committer.commit(first, job.context(1))
    committer.close()
    committer = job.committer(state)
    with pytest.raises(JobExecutionError, match=r"lost the marker.*if not, with '(.*)'") as caught:
        committer.commit(second, job.context(2))
    assert job.visible() == ["a"]
    # What the error advises, for records that are not there.
    metadata = str(caught.value).rpartition("with '")[2].removesuffix("'.")
    job.kafka.commit(group, job.topic, 1, metadata)
    committer.commit(second, job.context(2))
    committer.close()
    assert job.visible() == ["a", "b"]


def test_a_topic_that_was_created_again_while_the_job_was_away(job: Job) -> None:
    """The marker went with the topic; whether the output had been there is in doubt."""
    committer = job.committer()
    committer.commit(job.write(1, "a"), job.context(1))
    state = committer.snapshot()
    committer.close()
    owed = job.write(2, "b")
    job.kafka.recreate_topic(job.topic)
    committer = job.committer(state)
    with pytest.raises(JobExecutionError, match="lost the marker"):
        committer.commit(owed, job.context(2))
    committer.close()
    assert job.visible() == []


def test_much_output_is_published_in_several_transactions(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publishing, "_TRANSACTION_BYTES", 200)
    committables = [job.write(epoch, "x" * 60, str(epoch))[0] for epoch in range(1, 8)]
    committer = job.committer()
    committer.commit(committables, job.context(7))
    committer.close()
    assert job.visible()[1::2] == list("1234567")
    # Each transaction ends with a mark, which has an offset.
    assert job.kafka.end_offset(job.topic) == 14 + 4


def test_broker_away_at_the_commit(
    mortal: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit fails and is repeated; a commit whose answer was lost counts."""
    job = Job(mortal, mortal.create_topic("away-at-the-commit"), tmp_path)
    committer = job.committer()
    committer.commit(job.write(1, "a"), job.context(1))
    owed = job.write(2, "b")
    mortal.kill()
    with monkeypatch.context() as hurried:
        hurried.setattr(publishing, "_OFFSETS_S", 1.0)
        hurried.setattr(publishing, "_TIMEOUT_S", 1.0)
        with pytest.raises(JobExecutionError, match="has not confirmed the transaction"):
            committer.commit(owed, job.context(2))
    mortal.start()
    deadline = time.monotonic() + 120
    while True:
        try:
            committer.commit(owed, job.context(2))
            break
        except JobExecutionError:
            assert time.monotonic() < deadline
    committer.close()
    assert job.visible() == ["a", "b"]
