"""The command line: `headrace run`, `inspect`, `explain`, `draw`, `plot` and `new`; one module a command."""
