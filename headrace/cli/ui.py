"""The command `headrace ui`: serves a page about pipelines, from their checkpoints."""

from __future__ import annotations

import signal
from threading import Event
from typing import Annotated

import typer

from headrace.cli.ending import as_misuse, endings
from headrace.cli.inspect import view_of
from headrace.runners.reporting.reporter import PortError
from headrace.ui.pipelines import StoredPipeline, titles_of
from headrace.ui.server import PORT, PageServer, page_address


def ui(
    checkpoints: Annotated[list[str], typer.Argument(metavar="CHECKPOINT", help="Directories or URLs of checkpoints.")],
    listen: Annotated[
        str,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Where to serve: to this machine only, or at the address HOST, with a token; port 0 is a free one.",
        ),
    ] = str(PORT),
) -> None:
    """Serve a page that shows pipelines as they run, from their checkpoints.

    The page has the graph with rates and lag, watermarks and what holds them back, late and dropped records, key
    intervals, stored state and, of a recorded run, its panes; of a run that has ended, or was killed, as of its last
    commit. Several checkpoints are shown side by side. Reads only; no code that a checkpoint names is run. Ends with
    Ctrl-C, or with 2 when there is no checkpoint or the port cannot be opened.

    Example: headrace ui state/scores state/teams
    """
    with endings(), as_misuse(ImportError, PortError, ValueError):
        host, port = page_address(listen)
        for place in checkpoints:
            view_of(place)
        titles = titles_of(checkpoints)
        pipelines = [StoredPipeline(place, title=title) for place, title in zip(checkpoints, titles, strict=True)]
        with PageServer(pipelines, host, port) as server:
            typer.echo(f"serving {server.address} until Ctrl-C")
            _wait_for_end()


def _wait_for_end() -> None:
    """Wait for Ctrl-C or SIGTERM, either of which is the usual end."""
    ended = Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
