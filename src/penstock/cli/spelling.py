"""Flink's spellings, rewritten to what click understands.

Flink's client takes single-dash long options (`-py`), joined values (`-Dkey=value`, `-p4`), values
behind `=` (`-p=4`), and for `run` and `info` hands everything from the first argument on, or from
the first option it does not know once the program is named, to the program. Options that mean
something only to Java or to another resource manager are recognised: one sentence says what to use.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Final

from penstock.cli.failures import WrongUsageError, did_you_mean

_YARN: Final = (
    "is for YARN sessions of Flink; jobs run on any Spark master here: set "
    "-D penstock.spark.master=yarn where the job manager runs."
)
REFUSED: Final = {
    "-c": "names a Java class; a Python program is named by its file (-py) or module (-pym).",
    "--class": "names a Java class; a Python program is named by its file (-py) or module (-pym).",
    "-C": "adds to a Java class path; ship Python files with -pyfs, jars with "
    "-D penstock.spark.conf.spark.jars=….",
    "--classpath": "adds to a Java class path; ship Python files with -pyfs, jars with "
    "-D penstock.spark.conf.spark.jars=….",
    "-yid": _YARN,
    "--yarnapplicationId": _YARN,
}
"""Options of Flink without a meaning, each with what to use instead."""

TARGETS: Final = ("local", "remote")


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a verb by how they take values."""

    flags: frozenset[str]  # Names of options without a value.
    valued: frozenset[str]  # Names of options with one.
    optional: frozenset[str] = frozenset()  # Names of options whose value may be left out.
    runs_program: bool = False  # Whether arguments belong to a program, as for `run` and `info`.

    @property
    def names(self) -> frozenset[str]:
        return self.flags | self.valued | self.optional


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A command line for click."""

    arguments: tuple[str, ...]  # What click parses.
    notices: tuple[str, ...] = ()  # What the user should know.


_PROGRAM_OPTIONS: Final = frozenset({"-py", "--python", "-pym", "--pyModule"})


def rewrite(arguments: list[str], options: Options) -> Rewritten:
    """Returns what click is to parse.

    Raises:
        WrongUsageError: An option is unknown, or has no meaning here.
    """
    done: list[str] = []
    has_program = False
    position = 0
    while position < len(arguments):
        argument = arguments[position]
        rest = arguments[position:]
        if argument == "--":
            return Rewritten((*done, *rest))
        if not argument.startswith("-") or argument == "-":
            if options.runs_program:
                return Rewritten((*done, "--", *rest))
            done.append(argument)
            position += 1
            continue
        found = _rewritten(argument, options)
        if found is None:
            if not has_program:
                raise _unknown(argument, options)
            # As Flink's parser does: the program is named, so the rest is the program's.
            return Rewritten((*done, "--", *rest), _suspicion(argument, options))
        done += found
        position += 1
        if len(found) == 1 and found[0] in options.valued and position < len(arguments):
            done.append(arguments[position])
            position += 1
        has_program = has_program or (options.runs_program and found[0] in _PROGRAM_OPTIONS)
    return Rewritten(tuple(done))


def _rewritten(argument: str, options: Options) -> list[str] | None:
    """Returns an option as click wants it, a joined value behind it; None if it is unknown."""
    if argument in options.names:
        return [argument]
    name, separator, value = argument.partition("=")
    if argument.startswith("-D") and len(argument) > 2 and "-D" in options.valued:
        return ["-D", argument[2:]]
    if separator and name in options.flags:
        raise WrongUsageError(f"Option {name} takes no value, but got {argument}.")
    if separator and name in options.names:
        return [name, value]
    if name in REFUSED:
        raise WrongUsageError(f"{name} {REFUSED[name]}")
    if argument[:2] in options.valued and argument[2:].isdigit():
        return [argument[:2], argument[2:]]
    letters = [f"-{letter}" for letter in argument[1:]]
    if argument[1] != "-" and all(letter in options.flags for letter in letters):
        return letters
    return None


def _unknown(argument: str, options: Options) -> WrongUsageError:
    name = argument.partition("=")[0]
    return WrongUsageError(f"Unrecognized option: {argument}.{did_you_mean(name, options.names)}")


def _suspicion(argument: str, options: Options) -> tuple[str, ...]:
    name = argument.partition("=")[0]
    near = difflib.get_close_matches(name, options.names, n=1, cutoff=0.85)
    if not near:
        return ()
    return (
        f"{name} and what follows it go to the program. If {near[0]} was meant, write it so, "
        "before the program's own arguments.",
    )


def checked_target(target: str | None) -> str | None:
    """Returns where a job is to run, or says why it cannot run there."""
    if target is None or target in TARGETS:
        return target
    if target.startswith(("yarn", "kubernetes")):
        raise WrongUsageError(
            f"The target {target} is Flink's own way to a cluster. Here a job manager (-t remote) "
            "runs jobs on any Spark master: set penstock.spark.master to yarn or to a k8s:// "
            "address."
        )
    raise WrongUsageError(
        f'"{target}" is not a target; it must be remote or local.{did_you_mean(target, TARGETS)}'
    )
