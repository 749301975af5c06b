"""Starts the command line, as `headrace` or as `python -m headrace`."""

from headrace.cli.app import app

if __name__ == "__main__":
    app(prog_name="headrace")
