"""Credentials that a function gives: when it is asked, what it may return, what is said of it, what nobody sees."""

from __future__ import annotations

import logging
import pickle
import sys
import types
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path

import pytest

from headrace.lowlevel.storage.credentials import (
    Credentials,
    HookError,
    checked,
    credentials_of,
    hook_in_use,
    use,
    without_secrets,
)
from headrace.lowlevel.storage.object_store import ObjectStore, PlaceError, StoreError

START = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = "wJalrXUtnFEMI"
Answer = Callable[[str], object]


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def move(self, **parts: float) -> None:
        self.now += timedelta(**parts)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("company_storage")
    monkeypatch.setitem(sys.modules, "company_storage", module)
    return module


def s3_keys(ends: datetime | None, number: int = 0) -> dict[str, object]:
    return {"access_key_id": f"AKIA{number}", "secret_access_key": f"{SECRET}{number}", "expires_at": ends}


@pytest.mark.parametrize(
    ("lifetime", "asked_at"),
    [(timedelta(hours=1), timedelta(minutes=55)), (timedelta(minutes=6), timedelta(minutes=4))],
)
def test_new_ones_are_asked_for_before_they_run_out(
    lifetime: timedelta, asked_at: timedelta, clock: Clock, hook: types.ModuleType
) -> None:
    asked: list[str] = []

    def keys(place: str) -> object:
        asked.append(place)
        return s3_keys(clock() + lifetime, len(asked))

    hook.keys = keys
    credentials = Credentials("company_storage:keys", "s3://bucket", clock)
    for _ in range(3):
        credentials.current()
    clock.now = START + asked_at
    assert credentials.current().fields["access_key_id"] == "AKIA1"
    clock.move(seconds=1)
    assert credentials.current().fields["access_key_id"] == "AKIA2"
    assert asked == ["s3://bucket"] * 2


def test_what_does_not_run_out_is_asked_for_once(clock: Clock, hook: types.ModuleType) -> None:
    asked: list[str] = []
    hook.keys = lambda place: [asked.append(place), s3_keys(None)][1]
    credentials = Credentials("company_storage:keys", "s3://bucket", clock)
    for _ in range(3):
        credentials.current()
        clock.move(days=100)
    assert len(asked) == 1


def test_a_function_that_fails_is_asked_again_while_the_old_ones_serve(
    clock: Clock, hook: types.ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    asked: list[str] = []

    def keys(place: str) -> object:
        asked.append(place)
        if len(asked) in (2, 3):
            raise ConnectionError(f"https://user:{SECRET}@vault/x is down, {SECRET}0 is no use")
        return s3_keys(clock() + timedelta(minutes=10))

    hook.keys = keys
    credentials = Credentials("company_storage:keys", "s3://bucket", clock)
    first = credentials.current()
    clock.move(minutes=8)
    with caplog.at_level(logging.WARNING):
        for _ in range(5):
            assert credentials.current() is first
    assert len(asked) == 2, "not at each request"
    assert "company_storage:keys raised ConnectionError" in caplog.text and SECRET not in caplog.text
    clock.move(seconds=6)
    assert credentials.current() is first
    clock.move(seconds=6)
    assert credentials.current() is not first
    clock.move(hours=1)
    asked.clear()
    asked.append("the next one fails")
    with pytest.raises(HookError, match=r"credentials of s3://bucket cannot be had: company_storage:keys raised"):
        credentials.current()


class _NoZone(tzinfo):
    """A time zone that does not know its offset, as those of naive times."""

    def utcoffset(self, _: datetime | None) -> None:
        return None


def _raises(text: str) -> Callable[[str], None]:
    def keys(_: str) -> None:
        raise ConnectionError(text)

    return keys


@pytest.mark.parametrize(
    ("place", "answer", "said"),
    [
        ("s3://b", lambda _: None, r"returned a NoneType; return a dict with access_key_id and secret_access_key"),
        ("s3://b", lambda _: {}, r"returned nothing; return a dict"),
        ("s3://b", lambda _: {"token": SECRET}, r"returned \['token'\]; return a dict with access_key_id"),
        ("gs://b", lambda _: {"token": 7}, r"returned \['token'\]; return a dict with token, all text"),
        (
            "abfss://data@a.dfs.core.windows.net",
            lambda _: {"token": SECRET, "sas_token": SECRET},
            r"returned \['sas_token', 'token'\]; return a dict with access_key or sas_token or token",
        ),
        (
            "gs://b",
            lambda _: {"token": SECRET, "expires_at": datetime(2027, 1, 1)},
            r"without a time zone; give",
        ),
        (
            "gs://b",
            lambda _: {"token": SECRET, "expires_at": START},
            r"ran out at 2026-01-01T00:00:00\+00:00; ",
        ),
        ("gs://b", 7, r"is no function; name one"),
        ("gs://b", lambda _: {"token": f"{SECRET}\n"}, r"returned token with a blank, a line break"),
        ("gs://b", lambda _: {"token": ""}, r"returned token with a blank, .* or empty; return the text"),
        (
            "gs://b",
            lambda _: {"token": SECRET, "expires_at": datetime(2099, 1, 1, tzinfo=_NoZone())},
            r"without a time",
        ),
        ("gs://b", lambda _: sys.exit(SECRET[:3]), r"raised SystemExit: wJa; correct it"),
        ("gs://b", lambda: None, r"raised TypeError: .* takes 0 positional arguments but 1 was given; correct it"),
        ("gs://b", _raises(f"{'x' * 270} https://user:{SECRET}{'y' * 90}@vault"), r"x https://\*\*\*@vault; correct"),
    ],
)
def test_what_it_may_not_return_is_said_without_the_values(
    place: str, answer: object, said: str, clock: Clock, hook: types.ModuleType
) -> None:
    hook.keys = answer
    with pytest.raises(HookError, match=said) as raised:
        Credentials("company_storage:keys", place, clock).current()
    assert SECRET not in str(raised.value)


@pytest.mark.parametrize(
    ("place", "answer"),
    [
        ("s3://b", s3_keys(None)),
        ("s3://b", {**s3_keys(None), "token": "t"}),
        ("s3://b", {**s3_keys(None), "token": None}),
        ("gs://b", {"token": "t"}),
        ("az://data", {"access_key": "a2V5"}),
        ("abfss://data@a.dfs.core.windows.net", {"sas_token": "sv=1&sig=2", "expires_at": START + timedelta(hours=1)}),
        ("abfss://work@onelake.dfs.fabric.microsoft.com", {"token": "eyJ"}),
    ],
)
def test_what_it_may_return(
    place: str, answer: dict[str, object], clock: Clock, hook: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook.keys = lambda _: answer
    credentials = credentials_of(f"{place}/folder", "company_storage:keys")
    assert credentials is not None and credentials.place == place
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
    found = Credentials("company_storage:keys", place, clock).current()
    assert found.fields == {k: v for k, v in answer.items() if k != "expires_at" and v is not None}
    store = ObjectStore(f"{place}/folder", 0.2, "company_storage:keys")
    assert pickle.loads(pickle.dumps(store)).describe() == f"{place}/folder"


def test_credentials_may_last_beyond_the_last_year(clock: Clock, hook: types.ModuleType) -> None:
    hook.keys = lambda _: s3_keys(datetime.max.replace(tzinfo=timezone(timedelta(hours=-5))))
    assert Credentials("company_storage:keys", "s3://b", clock).current().expires_at is None


def test_the_error_of_a_module_shows_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "failing_vault.py").write_text(f"raise OSError('https://user:{SECRET}@vault/keys is down')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(HookError, match=r"cannot be imported .*https://\*\*\*@vault/keys is down") as raised:
        Credentials("failing_vault:keys", "s3://b").current()
    assert SECRET not in str(raised.value)


def test_a_name_that_the_module_has_not_is_said(hook: types.ModuleType) -> None:
    with pytest.raises(HookError, match=r"company_storage:kees is not there .*; name a function of the module"):
        Credentials("company_storage:kees", "s3://b").current()


@pytest.mark.parametrize("given", [len, ["company:keys"], 5])
def test_what_is_no_import_path_is_refused_by_name(given: object) -> None:
    with pytest.raises(ValueError, match="name a function by module:function"):
        checked(given)


def test_keys_of_the_environment_that_cannot_be_sent_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SESSION_TOKEN", f"{SECRET}\n")
    with pytest.raises(PlaceError, match="AWS_SESSION_TOKEN in the environment has a blank, a line break") as raised:
        ObjectStore("s3://b/p", 0.2)
    assert SECRET not in str(raised.value)


def test_of_two_secrets_the_longer_is_hidden_as_a_whole(clock: Clock, hook: types.ModuleType) -> None:
    for number in range(20):
        hook.keys = lambda _, n=number: {"access_key_id": f"begin{n}", "secret_access_key": f"begin{n}-and-more"}
        Credentials("company_storage:keys", "s3://b", clock).current()
        assert without_secrets(f"of begin{number}-and-more") == "of ***"


def test_the_error_of_a_store_names_function_place_and_remedy(hook: types.ModuleType) -> None:
    with pytest.raises(
        StoreError, match=r"cannot read s3://nowhere/p/a: .*company_nowhere:keys cannot be imported .*intact"
    ):
        ObjectStore("s3://nowhere/p", 0.2, "company_nowhere:keys").get("a")


def test_what_a_store_says_has_no_credentials(
    clock: Clock, hook: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    hook.keys = lambda _: s3_keys(None)
    store = ObjectStore("s3://seen/p", 0.2, "company_storage:keys")
    with pytest.raises(StoreError) as raised:
        store.get("a")
    assert SECRET not in str(raised.value) and raised.value.__cause__ is None
    assert without_secrets(f"<AWSAccessKeyId>{SECRET}0</AWSAccessKeyId>") == "<AWSAccessKeyId>***</AWSAccessKeyId>"
    assert SECRET.encode() not in pickle.dumps(store)


def test_the_signature_of_azure_is_hidden_in_any_spelling(clock: Clock, hook: types.ModuleType) -> None:
    hook.keys = lambda _: {"sas_token": f"sv=2024&sig={SECRET}%2Bx%3D"}
    Credentials("company_storage:keys", "az://data", clock).current()
    for signature in (f"{SECRET}%2Bx%3D", f"{SECRET}+x="):
        assert without_secrets(f"GET https://a/b?sv=1&sig={signature}: 403") == "GET https://a/b?sv=1&sig=***: 403"


def test_a_process_uses_the_function_of_the_option_or_of_the_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HEADRACE_CREDENTIALS", "by.variable:keys")
    use("by.option:keys")
    assert hook_in_use() == "by.option:keys"
    use(None)
    assert hook_in_use() == "by.variable:keys"
    for wrong in ("keys", "a:b:c", "a b:c", "", ":", "a:"):
        with pytest.raises(ValueError, match="name a function by module:function"):
            checked(wrong)
