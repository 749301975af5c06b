"""The module in which unpickling finds the classes of headrace: `Row` here is the class that is stored under this name.

Checkpoints contain the name of this module, so the module must not move, while the classes may. Programs should not
import it.
"""

from headrace.lowlevel.stored_names import Maker, maker


def __getattr__(name: str) -> Maker:
    """Return the class or function that is registered under a name.

    If the name is unknown, all classes that stored data may contain are imported, which registers them.
    """
    found = maker(name)
    if found is None and not name.startswith("__"):
        if name == "BeamWindow":
            # Its module needs a package that not everybody has installed.
            import headrace.runners.beam.windowings
        else:
            import headrace.sdk.stored_classes  # noqa: F401 - it registers what it imports
        found = maker(name)
    if found is None:
        raise AttributeError(f"no class is stored as {name!r}; a later release may have one")
    globals()[name] = found
    return found
