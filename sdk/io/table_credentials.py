"""Credentials that a function of the program gives (`--credentials`), as the packages of tables take them.

The packages take keys when a table is opened, which is at least once an epoch, and keep them: they must serve as long
as an epoch.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.lowlevel.storage.credentials import HookError, credentials_of, hook_in_use, kind_of
from headrace.lowlevel.storage.object_store import StoreError
from headrace.lowlevel.storage.places import Use, understood_place

Names = Mapping[str, Mapping[str, str]]
"""Kind of store -> field of a credential -> the package's name for it."""
DELTALAKE: Names = {
    "s3": {
        "access_key_id": "aws_access_key_id",
        "secret_access_key": "aws_secret_access_key",
        "token": "aws_session_token",
    },
    "azure": {
        "access_key": "azure_storage_account_key",
        "sas_token": "azure_storage_sas_key",
        "token": "azure_storage_token",
    },
}
PYICEBERG: Names = {
    "s3": {
        "access_key_id": "s3.access-key-id",
        "secret_access_key": "s3.secret-access-key",
        "token": "s3.session-token",
    },
    "gs": {"token": "gcs.oauth2.token"},
    "azure": {"access_key": "adls.account-key", "sas_token": "adls.sas-token", "token": "adls.token"},
}


def table_options(place: str, names: Names) -> dict[str, str]:
    """The options with which a package reaches a place now; empty for one without a function of the program.

    Raises:
        StoreError: The function failed, or the package takes no credentials that it can give.
    """
    url = understood_place(place, Use.FILES)
    credentials = credentials_of(url, hook_in_use())
    if credentials is None:
        return {}
    if (known := names.get(kind_of(url))) is None:
        raise StoreError(
            f"{place} cannot be opened with the credentials that {credentials.hook} gives, as the package of the "
            "table takes no token for such a store; give it a service account, as storage_options"
        )
    try:
        fields = credentials.current().fields
    except HookError as error:
        raise StoreError(f"{error}. Nothing of this epoch is committed; start again when it is mended") from None
    return {known[name]: value for name, value in fields.items()}
