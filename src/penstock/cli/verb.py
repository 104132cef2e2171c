"""What all verbs share: Flink's spellings, the options for the service and for output."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from penstock.cli.report import Report
from penstock.cli.service import configuration_with, notice_remarks, open_client, settings_of
from penstock.cli.spelling import Options, checked_target, rewrite

if TYPE_CHECKING:
    from penstock.cli.rest_client import RestClient
    from penstock.core.configuration import Configuration

F = TypeVar("F", bound="Callable[..., Any]")


class Verb(click.Command):
    """A verb that reads Flink's spellings."""

    runs_program = False

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Rewrites the arguments before click parses them."""
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


def output_options(function: F) -> F:
    """Adds `--json`, `--quiet` and `--stacktrace`."""
    for option in (
        click.option("--stacktrace", is_flag=True, help="Show the stack trace of a failure."),
        click.option("-q", "--quiet", is_flag=True, help="Print the bare result and nothing else."),
        click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    ):
        function = option(function)
    return function


def setting_option(function: F) -> F:
    """Adds `-D`."""
    return click.option(
        "-D", "pairs", multiple=True, metavar="KEY=VALUE", help="A setting; may be repeated."
    )(function)


def service_options(function: F) -> F:
    """Adds what leads to the job manager, and the output options."""
    for option in (
        click.option("-e", "--executor", "executor", hidden=True),
        click.option("-z", "--zookeeperNamespace", "namespace", metavar="ID", hidden=True),
        click.option("-t", "--target", "target", metavar="TARGET", hidden=True),
        click.option(
            "-m",
            "--jobmanager",
            "address",
            metavar="HOST:PORT",
            help="Address of the job manager; by default the leader's, or rest.address:rest.port.",
        ),
    ):
        function = option(function)
    return output_options(setting_option(function))


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
