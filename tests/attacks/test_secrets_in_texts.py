"""What people paste into settings, programs print and errors quote, read by somebody who may look.

The expected texts are written by hand: everything beside the secret stays, so that a log is still
worth reading.
"""

from __future__ import annotations

import logging

import pytest

from penstock.core.configuration import Configuration, Rank
from penstock.core.job import JobStatus
from penstock.core.redaction import (
    REDACTED,
    SecretlessFormatter,
    is_secret,
    shown_value,
    without_secrets,
)
from penstock.datastream.notebook import settings_html
from penstock.job.documents.configuration import effective_settings, pairs_view
from penstock.jobmanager.dispatching import Leadership
from penstock.jobmanager.job_records import JobRecord
from penstock.rest.prometheus import exposition

KEYS = [
    "s3.access-key",
    "s3.secret.key",
    "s3.session-token",
    "fs.azure.account.key.shop.blob.core.windows.net",
    "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net",
    "spark.hadoop.fs.azure.sas.container.shop.blob.core.windows.net",
    "spark.hadoop.fs.azure.account.oauth2.client.secret",
    "spark.hadoop.fs.s3a.access.key",
    "spark.hadoop.fs.s3a.encryption.key",
    "spark.hadoop.fs.gs.auth.service.account.private.key",
    "spark.hadoop.fs.oss.accessKeyId",
    "penstock.spark.conf.spark.hadoop.fs.obs.access.key",
    "spark.ssl.keyPassword",
    "security.ssl.rest.passphrase",
    "db.pass",
    "kafka.sasl.jaas.config",
    "schema.registry.basic.auth.user.info",
    "my.api_key",
    "my.bearer.token",
]
PLAIN = [
    "penstock.rest.token-file",
    "penstock.rest.require-token",
    "security.ssl.rest.private-key",
    "pipeline.name",
    "state.backend.type",
    "penstock.state.key-groups",
    "spark.hadoop.fs.s3a.endpoint",
    "compass.heading",
]


@pytest.mark.parametrize("key", KEYS)
def test_settings_of_secret_names_are_not_shown_anywhere(key: str) -> None:
    assert is_secret(key)
    configuration = Configuration()
    configuration.put(key, "hunter2", Rank.COMMAND_LINE, "-D")
    configuration.put(key, "hunter2 too", Rank.CODE, "job.py:1")
    assert "hunter2" not in str(effective_settings(configuration))
    assert "hunter2" not in str(pairs_view(configuration))
    assert "hunter2" not in settings_html("settings", configuration)


@pytest.mark.parametrize("value", ["hunter2", "x hunter2", "it's,hunter2", "x;hunter2", "'hunter2"])
def test_parameters_of_secret_names_are_not_shown_anywhere(value: str) -> None:
    key = "pipeline.global-job-parameters"
    configuration = Configuration()
    configuration.put(key, "db.password:hunter2", Rank.FILE, "conf/config.yaml:1")
    configuration.set(key, {"db.password": value, "user": "ann"})
    assert "hunter2" not in str(effective_settings(configuration))
    assert "hunter2" not in str(pairs_view(configuration))
    assert "hunter2" not in settings_html("settings", configuration)
    assert shown_value(key, configuration.to_dict()[key]) == f"db.password:{REDACTED},user:ann"


@pytest.mark.parametrize("key", PLAIN)
def test_other_settings_are_shown(key: str) -> None:
    assert shown_value(key, "7") == "7"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jdbc://u:pw@h/db failed", "jdbc://******@h/db failed"),
        ("jdbc://u:p@w@h/db failed", "jdbc://******@h/db failed"),
        ("password=hunter2, next", "password=******, next"),
        ("password=hun,ter;2 next", "password=****** next"),
        ("(password=hunter2)", "(password=******)"),
        ("f(password='hun ter', user=3)", "f(password='******', user=3)"),
        ('{"api_key": "abc def", "n": 1}', '{"api_key": "******", "n": 1}'),
        # A value in quotes ends at them, however often they were quoted themselves.
        (r"""{"password": "hun\"ter", "n": 1}""", '{"password": "******", "n": 1}'),
        (
            r"""["Login required user=\"ann\" password=\"hun ter\";", 1]""",
            r"""["Login required user=\"ann\" password=\"******\";", 1]""",
        ),
        (
            r"""{\"password\": \"a\\\"b\", \"authorization\": \"Basic dTpw\"}""",
            r"""{\"password\": \"******\", \"authorization\": \"Basic ******\"}""",
        ),
        (r"""[\"--token\", \"x\", \"-v\"]""", r"""[\"--token\", \"******\", \"-v\"]"""),
        (r"""passphrase=\"open sesame\" 1""", r"""passphrase=\"******\" 1"""),
        ('jaas=\'user="ann" a="b"\' c', "jaas='******' c"),
        ('password="" user="ann"', 'password="******" user="ann"'),
        # A line of a program, as tracebacks show it.
        (
            """b.set_property("sasl.password", "hun'ter").build()""",
            """b.set_property("sasl.password", "******").build()""",
        ),
        ('("sasl.jaas.config",\n    \'a="b"\',\n)', "(\"sasl.jaas.config\",\n    '******',\n)"),
        ("aws.secret.access-key: abc def", "aws.secret.access-key: ****** def"),
        ("passphrase: open sesame\nnext", "passphrase: ******\nnext"),
        ("--token x --name y", "--token ****** --name y"),
        ("['a.py', '--token', 'x', '-v']", "['a.py', '--token', '******', '-v']"),
        ("--password=hunter2 -v", "--password=****** -v"),
        (r"--password hun\ter -v", "--password ****** -v"),
        ("-Dmy.password=hunter2 -v", "-Dmy.password=****** -v"),
        ("Authorization: Bearer a.b-c", "Authorization: Bearer ******"),
        ("'authorization': 'Basic dTpw'", "'authorization': 'Basic ******'"),
        ("sent Bearer abcdefghijklmnopqrst", "sent Bearer ******"),
        (
            "https://s.blob.core.windows.net/c?sv=2020&sig=a%2Bb%3D&sp=r is slow",
            "https://s.blob.core.windows.net/c?sv=2020&sig=******&sp=r is slow",
        ),
        (
            "https://b.s3.amazonaws.com/k?X-Amz-Signature=abc&X-Amz-Date=2",
            "https://b.s3.amazonaws.com/k?X-Amz-Signature=******&X-Amz-Date=2",
        ),
        (
            "AccountName=shop;AccountKey=ab/c+==;EndpointSuffix=core.windows.net",
            "AccountName=shop;AccountKey=******;EndpointSuffix=core.windows.net",
        ),
        ("fs.azure.account.key.shop=ab==", "fs.azure.account.key.shop=******"),
        (
            "jdbc:postgresql://h/d?options=-c%20password%3Dhun%26ter&ssl=true",
            "jdbc:postgresql://h/d?options=-c%20password%3D******&ssl=true",
        ),
        ("jdbc:postgresql://ann:hun/ter@h/d", "jdbc:postgresql://******@h/d"),
        ("s3://AKIA:ab/c+d@bucket/x is slow", "s3://******@bucket/x is slow"),
        ("a eyJhbGci.eyJzdWIi.c2ln b", "a ****** b"),
        (
            "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY----- rest",
            "-----BEGIN PRIVATE KEY-----******-----END PRIVATE KEY----- rest",
        ),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII", "-----BEGIN RSA PRIVATE KEY-----******"),
        # What looks like it and is none.
        ("the token was None", "the token was None"),
        ("--token-file /etc/penstock/token", "--token-file /etc/penstock/token"),
        ("penstock.rest.require-token: false", "penstock.rest.require-token: false"),
        ("primary_key: 17, key=4", "primary_key: 17, key=4"),
        ("map() signature: (x)", "map() signature: (x)"),
        ("all tests pass: 5", "all tests pass: 5"),
        ("nothing to hide", "nothing to hide"),
        ("columns ('user', 'password', 'age')", "columns ('user', 'password', 'age')"),
        ("http://host:8081/jobs/a@b", "http://host:8081/jobs/a@b"),
        ("http://[::1]:8081/jobs/a@b", "http://[::1]:8081/jobs/a@b"),
    ],
)
def test_secrets_in_texts(text: str, expected: str) -> None:
    assert without_secrets(text) == expected
    assert without_secrets(expected) == expected


ENDLESS = [
    *(
        "x",
        "password",
        "s3://",
        "a://b@",
        "a://b:c",
        "token=",
        "--token ",
        "password=a,",
        "a,a,",
        "'\"",
        "-",
    ),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "eyJ", "eyJa.", "eyJa.eyJa.", "?sig=", "fs."),
    *("authorization ", "authorization: ", "authorization:a ", "bearer ", 'password="', "key."),
    *("('token','a'", '("token","\\"', 'token="\\"', "token=\\"),
    *("token=a,b;c)", "passphrase ", "passphrase=", "://", "proxy-authorization:", "=,;)"),
]


@pytest.mark.parametrize("word", ENDLESS)
def test_a_line_without_an_end_is_read_once(word: str) -> None:
    """Read again from each of its words, a line of a megabyte would take hours."""
    line = word * (1_000_000 // len(word))
    for text in (line, word + " " * 1_000_000, line + " " * 1000 + "="):
        assert len(without_secrets(text)) <= len(text) + len(REDACTED) * len(text)


def test_lines_of_logs_have_no_secrets() -> None:
    formatter = SecretlessFormatter("%(levelname)s %(message)s")
    try:
        raise ValueError("s3://me:hunter2@bucket is away")
    except ValueError as error:
        facts = (type(error), error, error.__traceback__)
    record = logging.LogRecord("x", logging.INFO, "f", 1, "token=%s", ("hunter2",), facts)
    text = formatter.format(record)
    assert "token=******" in text
    assert "s3://******@bucket is away" in text
    assert "hunter2" not in text


def test_labels_of_metrics_have_no_secrets() -> None:
    name = "copy jdbc://me:hunter2@db/shop"
    summary = JobRecord(job_id="a" * 32, name=name, status=JobStatus.RUNNING)
    text = exposition(Leadership(True, 1, None), [summary], {})
    assert 'job_name="copy jdbc://******@db/shop"' in text
