"""The flags of `EngineOptions`, as arguments of a parser, with their meanings."""

from __future__ import annotations

import argparse


def add_state(parser: argparse.ArgumentParser) -> None:
    """How the state of keys is divided, and how much of it is kept in memory."""
    parser.add_argument(
        "--intervals",
        type=int,
        default=None,
        metavar="COUNT",
        help="number of key intervals at the start; if not given, the runner chooses",
    )
    parser.add_argument(
        "--balance",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="split, merge and move key intervals as their load changes",
    )
    parser.add_argument(
        "--cache_mb",
        type=int,
        default=None,
        metavar="MIB",
        help="MiB of decoded state that a process may keep in memory; 0 for none",
    )


def _add_seconds(parser: argparse.ArgumentParser, name: str, meaning: str) -> None:
    parser.add_argument(name, type=float, default=None, metavar="SECONDS", help=meaning)


def add_epochs(parser: argparse.ArgumentParser) -> None:
    """How large epochs become, and how they run on Spark."""
    parser.add_argument(
        "--max_records_per_epoch",
        type=int,
        default=None,
        metavar="COUNT",
        help="greatest number of records of a source in an epoch; if not given, a million, or more if epochs are quick",
    )
    _add_seconds(parser, "--latency_aim", "seconds within which results are wanted; determines the size of epochs")
    parser.add_argument(
        "--one_task_epochs",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="run an epoch with little work in one Spark task",
    )
    _add_seconds(
        parser,
        "--task_idle_seconds",
        "seconds that a Spark task for small epochs waits for the next one; with 0, each epoch is a job",
    )
    _add_seconds(
        parser, "--straggler_delay", "seconds until rows that no sink has acknowledged become part of the commit"
    )


def add_sources(parser: argparse.ArgumentParser) -> None:
    """How sources are read."""
    _add_seconds(
        parser, "--skew_limit", "seconds of event time that one source may be ahead of another; no limit if not given"
    )
    _add_seconds(parser, "--poll_seconds", "seconds between two checks of idle input")


def add_recording(parser: argparse.ArgumentParser) -> None:
    """What is recorded of a run."""
    parser.add_argument(
        "--record",
        action="append",
        nargs="?",
        const="",
        metavar="LABEL",
        help="record the data for a picture of the run, of all groupings or of a step; may be repeated",
    )
    parser.add_argument(
        "--record_to",
        default=None,
        metavar="FILE",
        help="file (JSON) to which the recording is saved; implies `--record`",
    )
