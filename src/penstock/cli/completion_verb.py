"""`penstock completion`: the script that teaches a shell to complete our command lines."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from penstock.cli.failures import WrongUsageError, did_you_mean

_SHELLS = ("bash", "zsh", "fish")


@click.command(
    "completion",
    epilog="""\b
Put one of these lines into the start-up file of your shell:
  bash   eval "$(penstock completion bash)"
  zsh    eval "$(penstock completion zsh)"
  fish   penstock completion fish | source""",
)
@click.argument("shell", metavar="bash|zsh|fish")
@click.pass_context
def verb(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell."""
    kind = get_completion_class(shell) if shell in _SHELLS else None
    if kind is None:
        raise WrongUsageError(
            f'"{shell}" is not a shell; it must be bash, zsh or fish.{did_you_mean(shell, _SHELLS)}'
        )
    group = ctx.find_root().command
    completion = kind(group, {}, "penstock", "_PENSTOCK_COMPLETE")
    click.echo(completion.source())
