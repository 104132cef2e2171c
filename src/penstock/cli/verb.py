"""What all verbs share: Flink's spellings, the options for output, and how the service is found.

1. Flink's client takes single-dash long options (`-py`), joined values (`-Dkey=value`, `-p4`) and
   values behind `=` (`-p=4`). For `run` and `info` it hands everything from the first argument on,
   or from the first option that it does not know once the program is named, to the program.
   `rewrite` makes of that what click understands.
2. Options that mean something only to Java or to another resource manager are recognised: one
   sentence says what to use.
3. The job manager is at `-m`, else where its lease says when several may lead, else as configured.
"""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

import click

from penstock.cli.report import Report, WrongUsageError, did_you_mean
from penstock.cli.rest_client import RestClient
from penstock.core.config_file import load_configuration
from penstock.core.configuration import Configuration, Rank
from penstock.core.errors import PenstockError
from penstock.core.options import canonical_key, remark
from penstock.rest.trust import client_context, find_token, rest_scheme

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


F = TypeVar("F", bound="Callable[..., Any]")


class Verb(click.Command):
    """A verb that reads Flink's spellings."""

    runs_program = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)  # A line that is being completed.
        rewritten = rewrite(args, self._options(ctx))
        for notice in rewritten.notices:
            click.echo(f"note: {notice}", err=True)
        return super().parse_args(ctx, list(rewritten.arguments))

    def _options(self, ctx: click.Context) -> Options:
        flags: set[str] = set()
        valued: set[str] = set()
        optional: set[str] = set()
        for option in self.get_params(ctx):
            if isinstance(option, click.Option):
                if option.is_flag:
                    flags.update(option.opts)
                elif option.metavar is not None and option.metavar.startswith("["):
                    optional.update(option.opts)
                else:
                    valued.update(option.opts)
        return Options(frozenset(flags), frozenset(valued), frozenset(optional), self.runs_program)


class ProgramVerb(Verb):
    """A verb whose arguments belong to a program."""

    runs_program = True


@dataclass(frozen=True, slots=True)
class Asked:
    """What the shared options of a verb say."""

    report: Report  # Says things as asked for.
    address: str | None = None  # `-m`, or None.
    settings: dict[str, str] | None = None  # `-D` by key.
    target: str | None = None  # `-t`, or None.

    def configuration(self) -> Configuration:
        """Returns the configuration that holds for this command."""
        return configuration_with(dict(self.settings or {}))

    def client(self) -> RestClient:
        """Returns a client of the job manager; says which settings mean nothing to it."""
        notice_remarks(self.settings or {}, self.report)
        return open_client(self.configuration(), self.address)


def several(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Makes one decorator of options, which the help shows in this order."""

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


output_options: Final = several(
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    click.option("-q", "--quiet", is_flag=True, help="Print the bare result and nothing else."),
    click.option("--stacktrace", is_flag=True, help="Show the stack trace of a failure."),
)
setting_option: Final = click.option(
    "-D", "pairs", multiple=True, metavar="KEY=VALUE", help="A setting; may be repeated."
)


def _service_options(*, shows_target: bool) -> Callable[[F], F]:
    return several(
        output_options,
        setting_option,
        click.option(
            *("-m", "--jobmanager", "address"),
            metavar="HOST:PORT",
            help="Address of the job manager; by default the leader's, or rest.address:rest.port.",
        ),
        click.option(
            *("-t", "--target", "target"),
            metavar="remote|local",
            hidden=not shows_target,
            help="Run the job at the job manager (remote, the default), or in this process.",
        ),
        click.option("-z", "--zookeeperNamespace", "namespace", metavar="ID", hidden=True),
        click.option("-e", "--executor", "executor", hidden=True),
    )


service_options: Final = _service_options(shows_target=False)
"""What leads to the job manager, and the output options."""

run_options: Final = _service_options(shows_target=True)
"""The same for `penstock run`, where a target means something."""


def asked(options: dict[str, Any]) -> Asked:
    """Takes the shared options out of a verb's options."""
    options.pop("stacktrace", None)
    report = Report(as_json=options.pop("as_json"), quiet=options.pop("quiet"))
    settings = settings_of(options.pop("pairs", ()))
    namespace = options.pop("namespace", None)
    if namespace is not None:
        settings["high-availability.cluster-id"] = namespace
    executor = options.pop("executor", None) or settings.pop("execution.target", None)
    target = checked_target(options.pop("target", None) or executor)
    return Asked(report, options.pop("address", None), settings, target)


def settings_of(pairs: Iterable[str]) -> dict[str, str]:
    """Returns `-D` settings by key; a key alone means true, as for Flink."""
    settings = {}
    for pair in pairs:
        key, separator, value = pair.partition("=")
        if not key.strip():
            raise WrongUsageError(f"-D takes key=value, but got -D{pair}.")
        settings[key.strip()] = value if separator else "true"
    return settings


def notice_remarks(settings: Iterable[str], report: Report) -> None:
    """Says which settings are unknown or change nothing."""
    for key in settings:
        said = remark(canonical_key(key))
        if said:
            report.notice(f"WARNING {key} (-D) {said}")


def configuration_with(settings: dict[str, str]) -> Configuration:
    """Returns the configuration of the file with the command line's settings above it."""
    configuration = load_configuration()
    for key, value in settings.items():
        configuration.put(key, value, Rank.COMMAND_LINE, "-D")
    return configuration


def open_client(configuration: Configuration, address: str | None) -> RestClient:
    """Returns a client of the job manager, which is not asked yet."""
    token_of, scheme = _token_finder(configuration), rest_scheme(configuration)
    tls: dict[str, Any] = {
        "trusted": partial(client_context, configuration),
        "token_in_clear": configuration.get_boolean("penstock.rest.token-in-clear"),
    }
    if address:
        return RestClient(base_url(address, scheme), token_of, **tls)
    host, port = configuration.get_string("rest.address"), configuration.get_integer("rest.port")
    url = base_url(f"{host}:{port}", scheme)
    if configuration.get_enum("high-availability.type") == "NONE":
        return RestClient(url, token_of, **tls)
    from penstock.jobmanager.high_availability.coordination import find_leader_url

    def find_leader() -> str | None:
        found = find_leader_url(configuration)
        return None if found is None else base_url(found, scheme)

    def find_leader_again() -> str | None:
        # A store that is away for a moment does not end what the client waits for.
        with contextlib.suppress(PenstockError):
            return find_leader()
        return None

    return RestClient(find_leader() or url, token_of, find_leader=find_leader_again, **tls)


def base_url(address: str, scheme: str = "http") -> str:
    """Returns the URL of an address such as `localhost:8081`.

    Raises:
        WrongUsageError: It is none.
    """
    if address.startswith("yarn"):
        raise WrongUsageError(
            f"-m {address} is Flink's own way to YARN. Name the job manager's address, as in "
            "-m localhost:8081; jobs run on YARN with -D penstock.spark.master=yarn there."
        )
    wrong = WrongUsageError(
        f'-m "{address}" is not an address; write host:port, as in localhost:8081.'
    )
    try:
        parts = urlsplit(address if "://" in address else f"{scheme}://{address}")
        port = 8081 if parts.port is None else parts.port
    except ValueError:
        raise wrong from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise wrong
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}{parts.path.rstrip('/')}"


def _token_finder(configuration: Configuration) -> Callable[[str, int], str | None]:
    file = configuration.get_string("penstock.rest.token-file")
    return lambda host, port: find_token(host, port, file)
