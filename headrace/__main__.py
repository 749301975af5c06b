"""The command line: `headrace`, or `python -m headrace`."""

from headrace.cli.app import app

if __name__ == "__main__":
    app(prog_name="headrace")
