"""Classes of rows, such as keys that are dataclasses or named tuples, for processes that decode them.

Beam's row coder knows a class by the number of its schema, which is made up in the process of the program. A process
that does not know the number would decode rows into a class that Beam generates.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import cloudpickle
from apache_beam.typehints.schema_registry import SCHEMA_REGISTRY

from headrace.runners.beam.beam_private import is_generated_row_type

_log = logging.getLogger(__name__)


def pickled_row_types() -> Mapping[str, bytes]:
    """Number of a schema -> the program's class for it, pickled, as far as that is possible."""
    types = {}
    for number, kind in SCHEMA_REGISTRY.get_registered_typings().items():
        if is_generated_row_type(kind):
            continue
        try:
            types[number] = cloudpickle.dumps(kind)
        except Exception:
            _log.debug("the class of rows %r cannot be sent to workers", kind, exc_info=True)
    return types


def register_row_types(types: Mapping[str, bytes]) -> None:
    """Have rows with these numbers decoded into the program's classes, in this process."""
    for number, data in types.items():
        known = SCHEMA_REGISTRY.get_typing_by_id(number)
        if known is None or is_generated_row_type(known):
            # Beam's own `load_registered_typings` would leave a generated class.
            SCHEMA_REGISTRY.by_id[number] = (cloudpickle.loads(data), SCHEMA_REGISTRY.get_schema_by_id(number))
