"""`penstock jobmanager`: the service in the foreground."""

from __future__ import annotations

from typing import Any

import click

from penstock.cli.verb import Verb, asked, output_options, setting_option


@click.command(
    "jobmanager",
    cls=Verb,
    epilog="""\b
Examples:
  penstock jobmanager                  then, elsewhere: penstock run -d app.py
  penstock jobmanager --port 8082 -D penstock.spark.master=spark://host:7077
  PENSTOCK_CONF_DIR=/etc/penstock penstock jobmanager

\b
Stop it with Ctrl-C or SIGTERM: jobs stay recoverable, and the next job manager takes them up.""",
)
@click.option("--host", metavar="ADDRESS", help="Address to listen on (rest.bind-address).")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port to listen on (rest.port); 0 for a free one.",
)
@setting_option
@output_options
def verb(host: str | None, port: int | None, **options: Any) -> None:
    """Run the job manager: takes jobs, restarts them, serves REST and the web page.

    Only this machine can reach it, unless it is told to listen elsewhere and given a token file.
    """
    given = asked(options)
    from penstock.launch.service import run_job_manager

    run_job_manager(given.configuration(), host, port)
