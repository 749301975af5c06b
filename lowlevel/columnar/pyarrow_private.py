"""Undocumented parts of pyarrow that the package uses; check this module at each upgrade of pyarrow.

- `pyarrow.lib.string_to_tzinfo` accepts every time zone name of an Arrow timestamp, including offsets such as `+02:00`.
"""

from __future__ import annotations

from datetime import tzinfo
from typing import cast

import pyarrow as pa


def zone_of(name: str) -> tzinfo:
    """The time zone of an Arrow timestamp type, by its name. Raises an error of pyarrow for an unknown name.

    It is the one that pyarrow's own conversion gives: of pytz, where that is installed, before pyarrow 25.

    >>> zone_of("+02:00").utcoffset(None)
    datetime.timedelta(seconds=7200)
    """
    return cast(tzinfo, pa.lib.string_to_tzinfo(name))
