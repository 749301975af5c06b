"""Starts the command line, as `headrace` or as `python -m headrace`."""

from headrace.cli import early_signals

# The first thing of all: the other imports take a second.
early_signals.handle_signals()

from headrace.cli.app import app  # noqa: E402 - behind the signals, as said above

if __name__ == "__main__":
    app(prog_name="headrace")
