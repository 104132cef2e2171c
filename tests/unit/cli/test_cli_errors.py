"""Failures: Flink's words for wrong usage, one cause and one next step, exit codes for scripts."""

from __future__ import annotations

import pytest
from command_line import penstock
from stub_manager import ID_OTHER, ID_RUNNING, StubJob, StubManager

from penstock.cli import main

VERBS = [name for section in main.VERBS.values() for name in section if name != "demo"]
SEE_HELP = "Use the help option (-h or --help) to get help on the command."


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("foo", '"foo" is not a valid action.'),
        ("savepiont x", '"savepiont" is not a valid action. Did you mean "savepoint"?'),
        ("savepoint", "Missing JobID. Specify a Job ID to trigger a savepoint."),
        ("cancel", "Missing JobID. Specify a JobID to cancel a job."),
        ("checkpoint", "Missing JobID. Specify a Job ID to manipulate a checkpoint."),
        ("rescale 40dcc6", "Missing parallelism. Specify it with -p, for example -p 4."),
        ("rescale -p 0 40dcc6", "The parallelism 0 is too low: a job has at least 1 subtask"),
        ("savepoint abc", 'Cannot parse JobID from "abc".'),
        ("stop 40dcc", 'Cannot parse JobID from "40dcc".'),
        ("list --runing", 'Unrecognized option: --runing. Did you mean "--running"?'),
        ("list -m localhost:nope", '-m "localhost:nope" is not an address'),
        ("list -m [::1", '-m "[::1" is not an address'),
        ("list -m localhost:0", '-m "localhost:0" is not an address'),
        ("list -m yarn-cluster", "-m yarn-cluster is Flink's own way to YARN."),
        ("list -t yarn-session", "The target yarn-session is Flink's own way to a cluster."),
        (f"savepoint -type fast {ID_RUNNING}", '-type "fast" is not a format'),
        ("run", "No program was named."),
        ("run app.jar", "app.jar is a Java program"),
        ("run -py a.py -pym b", "-py and -pym both name a program"),
        ("state lst x", '"lst" is not an action of state, which has ls, get, diff.'),
        ("completion tcsh", '"tcsh" is not a shell'),
    ],
)
def test_wrong_usage(command: str, text: str) -> None:
    ran = penstock(*command.split())
    assert ran.code == 2
    assert ran.out.startswith(text)
    assert ran.lines[-1] == SEE_HELP
    assert ran.err == ""


def test_an_empty_path_is_not_the_directory_we_are_in() -> None:
    """As a script has it whose variable is not set."""
    ran = penstock("state", "ls", "")
    assert (ran.code, ran.lines[0]) == (2, "A path is empty. Is it a variable that is not set?")


def test_json_keeps_the_standard_output_free() -> None:
    ran = penstock("savepoint", "--json")
    assert (ran.code, ran.out) == (2, "")
    assert "Missing JobID" in ran.err


def test_no_action_is_the_help() -> None:
    ran = penstock()
    assert ran.code == 2
    assert "run " in ran.out
    assert "check-restore" in ran.out


@pytest.mark.parametrize("verb", VERBS)
def test_help_teaches(verb: str) -> None:
    """Every action says what it does and shows examples that begin with the command."""
    ran = penstock(verb, "-h")
    assert ran.code == 0
    assert f"penstock {verb}" in ran.out.partition("Options:")[2]
    assert all(len(line) <= 100 for line in ran.lines)


def test_help_shows_targets_where_there_is_a_choice() -> None:
    assert "-t, --target remote|local" in penstock("run", "-h").out
    assert "--target" not in penstock("list", "-h").out + penstock("run-application", "-h").out


def test_no_manager_is_exit_4() -> None:
    ran = penstock("list", "-m", "127.0.0.1:1")
    assert ran.code == 4
    assert ran.err.startswith("error: No job manager answers at http://127.0.0.1:1 (")
    assert "`penstock jobmanager`" in ran.err
    assert "Traceback" not in ran.err


def test_a_refusal_is_the_managers_own_text(manager: StubManager) -> None:
    unknown = "99dcc6d2ba90f13930abce295de8d038"
    ran = penstock("savepoint", unknown, "-m", manager.url)
    assert ran.code == 1
    assert ran.err == f"error: Job {unknown} not found.\n"


def test_a_failed_operation_is_its_first_cause(manager: StubManager) -> None:
    manager.failure = "The directory /x is not writable.\n\tat java.base/x.y(Z.java:1)"
    ran = penstock("savepoint", ID_RUNNING, "-m", manager.url)
    assert ran.code == 1
    assert ran.err == "error: The directory /x is not writable.\n"


def test_a_failure_cannot_steer_the_terminal(manager: StubManager) -> None:
    manager.failure = "line 1\n\tindented \x1b]0;evil\x07"
    ran = penstock("savepoint", ID_RUNNING, "-m", manager.url)
    assert ran.err == "error: line 1\n    indented \\x1b]0;evil\\x07\n"


def test_stack_traces_are_shown_when_asked_for() -> None:
    ran = penstock("list", "--stacktrace", "-m", "127.0.0.1:1")
    assert "Traceback" in ran.err
    assert ran.err.splitlines()[-1].startswith("error: No job manager answers")


def test_a_unique_prefix_is_a_job_id(manager: StubManager) -> None:
    manager.add(StubJob(ID_OTHER))
    ran = penstock("cancel", ID_RUNNING[:8].upper(), "-m", manager.url)
    assert ran.lines == [f"Cancelling job {ID_RUNNING}.", f"Cancelled job {ID_RUNNING}."]
    ambiguous = penstock("cancel", "40dcc6", "-m", manager.url)
    assert ambiguous.code == 1
    assert f"2 jobs' ids begin with 40dcc6: {ID_RUNNING}, {ID_OTHER}" in ambiguous.err
    unknown = penstock("cancel", "123456", "-m", manager.url)
    assert "No job's id begins with 123456." in unknown.err


def test_settings_that_mean_nothing_are_said(manager: StubManager) -> None:
    ran = penstock("list", "-Drest.prot=1", "-m", manager.url)
    assert ran.err == (
        "WARNING rest.prot (-D) is unknown and has no effect. Did you mean 'rest.port'?\n"
    )
    assert penstock("list", "-Drest.prot=1", "--quiet", "-m", manager.url).err == ""


def test_the_address_comes_from_the_configuration(manager: StubManager) -> None:
    host, port = manager.url.split(":")
    ran = penstock("list", f"-Drest.address={host}", "-D", f"jobmanager.web.port={port}")
    assert ran.code == 0
    assert ID_RUNNING in ran.out
