"""Runs a user's program in a process of its own, for its job or only for what it would run.

    python -m penstock.launch.program_process <request as JSON>

    run            its jobs run here, with Flink's lines on the standard output; the answer says
                   how they ended
    plan           its first job is not started; its plan is the answer
    config         the same; its settings with their sources are the answer
    check-restore  the same; what a snapshot would become in it is the answer

The answer is a JSON document in a file that the request names, so that the program may print what
it likes. The command line's settings come through `PENSTOCK_DYNAMIC_PROPERTIES`.
"""

from __future__ import annotations

import json
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core.errors import PenstockError, UserFunctionError
from penstock.job.start import NO_JOB, ProgramRequest, run_program, set_launcher
from penstock.launch.local import start_with_page
from penstock.operators.errors import describe_exception, is_ours

if TYPE_CHECKING:
    from penstock.core.configuration import Configuration
    from penstock.graph.nodes import StreamGraph
    from penstock.job.local_job import Listener, LocalJob


class _AnsweredError(BaseException):
    """Ends the program: what was wanted of it is known. No `except Exception` may keep it."""


class _Answering:
    """A launcher that starts nothing: it answers about the first job and ends the program."""

    def __init__(self, request: ProgramRequest) -> None:
        self._request = request

    def __call__(
        self, graph: StreamGraph, configuration: Configuration, _listener: Listener | None
    ) -> LocalJob:
        answer = self._answer(graph, configuration)
        Path(self._request.answer).write_text(json.dumps(answer), encoding="utf-8")
        raise _AnsweredError

    def _answer(self, graph: StreamGraph, configuration: Configuration) -> Any:
        if self._request.purpose == "config":
            from penstock.job.documents.configuration import effective_settings

            return effective_settings(configuration)
        if self._request.purpose == "check-restore":
            from penstock.job.restore import check_restore

            return check_restore(graph, configuration, self._request.snapshot)
        from penstock.runtime.lowering import execution_plan

        return {"job_name": graph.job_name, "plan": json.loads(execution_plan(graph))}


class _Running:
    """A launcher that starts jobs and says so in Flink's lines."""

    def __init__(self, request: ProgramRequest) -> None:
        self._request = request
        self._jobs: list[LocalJob] = []

    def __call__(
        self, graph: StreamGraph, configuration: Configuration, listener: Listener | None
    ) -> LocalJob:
        # Said before it starts, or the first records of a quick job would come before it.
        return start_with_page(graph, configuration, listener, before_start=self._submitted)

    def _submitted(self, job: LocalJob) -> None:
        self._jobs.append(job)
        self._print(f"Job has been submitted with JobID {job.job_id}")

    def wait(self) -> bool:
        """Waits for jobs that the program has left running, as Flink's attached client does.

        Returns:
            Whether there were any.
        """
        for job in self._jobs:
            self._print(str(job.wait()))
        return bool(self._jobs)

    def answer(self) -> None:
        jobs = [{"job_id": job.job_id, "state": job.status.name} for job in self._jobs]
        Path(self._request.answer).write_text(json.dumps({"jobs": jobs}), encoding="utf-8")

    def _print(self, text: str) -> None:
        if not self._request.is_quiet:
            print(text, flush=True)


def main(text: str) -> int:
    """Runs the program of a request; returns the exit code."""
    fields = json.loads(text)
    request = ProgramRequest(
        **fields | {name: tuple(fields.get(name, ())) for name in ("arguments", "paths")}
    )
    signal.signal(signal.SIGTERM, _interrupt)
    running = _Running(request)
    set_launcher(running if request.purpose == "run" else _Answering(request))
    try:
        run_program(request.program, request.module, request.arguments, request.paths)
        if request.purpose == "run" and not running.wait():
            print(NO_JOB, file=sys.stderr)
            return 1
    except _AnsweredError:
        return 0
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        _say(error, shows_traces=request.shows_traces)
        return 1
    finally:
        if request.purpose == "run":
            running.answer()
    if request.purpose != "run":
        print(NO_JOB, file=sys.stderr)
        return 1
    return 0


def _interrupt(_number: int, _frame: Any) -> None:
    # `timeout` and systemd send it to every process, and the command passes its own on: a second
    # one would only break off what the first has begun, such as the end of Spark.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _say(error: Exception, *, shows_traces: bool) -> None:
    """Prints a failure: a sentence when it is Penstock's, the user's frames when it is not."""
    if shows_traces:
        text = "".join(traceback.format_exception(error)).rstrip()
    elif isinstance(error, PenstockError):
        text = f"error: {error}{_place_in_program(error)}"
    else:
        text = describe_exception(error)
    print(text, file=sys.stderr)


def _place_in_program(error: PenstockError) -> str:
    """Returns the line of the program from which the failed call came."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not is_ours(f.filename)]
    if not frames or isinstance(error, UserFunctionError):
        return ""
    return f"\n  {frames[-1].filename}:{frames[-1].lineno}: {frames[-1].line}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
