"""Names of functions in step labels."""

from __future__ import annotations

import os
from types import FunctionType
from typing import cast


def label_of(fn: object) -> str:
    """The name of a function in a step label: its default label, its name, or file and line of a lambda.

    >>> label_of(len), label_of(3)
    ('len', '3')
    """
    if default_label := getattr(fn, "default_label", None):
        return str(default_label())
    name = getattr(fn, "__name__", None)
    if name == "<lambda>":
        code = cast(FunctionType, fn).__code__
        return f"<lambda at {os.path.basename(code.co_filename)}:{code.co_firstlineno}>"
    return str(name or fn)
