"""Functions that give credentials of the S3 server of the tests, which live for some seconds."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from tests.s3 import S3

BROKEN = "HEADRACE_TEST_NO_KEYS"
"""A file: while it exists, `keys` fails."""


def keys(place: str) -> dict[str, object]:
    """Fresh keys."""
    assert place.startswith("s3://bucket-") and place.count("/") == 2
    if os.path.exists(os.environ.get(BROKEN, "")):
        raise RuntimeError("the vault at https://user:vault-password@vault.example/keys is closed")
    given = S3(os.environ["AWS_ENDPOINT_URL"]).keys(os.getpid())
    return {**given, "expires_at": datetime.fromtimestamp(float(str(given["expires_at"])), UTC)}
