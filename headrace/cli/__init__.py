"""The command line: `headrace run`, `inspect`, `explain`, `draw` and `new`; one module a command."""
