"""Who may read the page: rules for the method, the name of the host, and the token of a request."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The Content-Security-Policy of everything but the pictures of a run."""
HEADERS = {
    "content-security-policy": POLICY,
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine reach what listens at a host.

    >>> [is_loopback(host) for host in ("127.0.0.1", "::1", "localhost", "0.0.0.0", "::", "example.com")]
    [True, True, True, False, False, False]
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that is not answered: the status and the reason."""

    status: HTTPStatus
    reason: str


@dataclass(frozen=True, slots=True)
class Access:
    """The rules for the requests to one page."""

    host: str
    """The host that the page listens at."""
    token: str | None
    """The secret of its address; None if none is asked for."""
    names: frozenset[str] = field(default_factory=frozenset)
    """Names of this machine, besides addresses, that a request may be for."""

    @classmethod
    def for_host(cls, host: str) -> Access:
        """The rules for a page at a host: this machine needs no token, others need one of 32 random bytes."""
        if is_loopback(host):
            return cls(host, None, frozenset({"localhost"}))
        names = {host.lower(), "localhost", socket.gethostname().lower(), socket.getfqdn().lower()}
        return cls(host, secrets.token_urlsafe(32), frozenset(names))

    def refusal(self, method: str, host: str, fetched_by: str = "", mode: str = "") -> Refusal | None:
        """Why a request is refused, whoever makes it; None if it is not.

        Args:
            method: The method of HTTP.
            host: The header Host.
            fetched_by: The header Sec-Fetch-Site, by which a browser says whose page makes the request.
            mode: The header Sec-Fetch-Mode: `navigate` if a person follows a link.
        """
        if method not in ("GET", "HEAD"):
            return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, "The page is read only: GET and HEAD are all it answers.")
        if not self._is_own(_name_of(host)):
            known = ", ".join(sorted(self.names))
            return Refusal(
                HTTPStatus.MISDIRECTED_REQUEST,
                f"The page is not served under this name. Open it by the machine's address, or as {known}.",
            )
        if fetched_by in ("cross-site", "same-site") and mode != "navigate":
            # It could not read the answer, but keep the run busy with making it.
            return Refusal(HTTPStatus.FORBIDDEN, "Pages of other sites are not answered.")
        return None

    def _is_own(self, name: str) -> bool:
        """Whether a request is for this machine. Of names only known ones are: any site can point its own name here."""
        if name.lower() in self.names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or self.token is not None

    def cookie_name(self, port: int) -> str:
        """The name of the cookie that keeps the token: the pages of one machine have the same cookies."""
        return f"headrace-page-{port}"

    def knows_token(self, given: str | None) -> bool:
        """Whether a text is the token; always true if none is asked for."""
        return self.token is None or (given is not None and hmac.compare_digest(given.encode(), self.token.encode()))

    def is_let_in(self, cookies: str, port: int) -> bool:
        """Whether the cookies of a request have the token, or none is asked for."""
        try:
            morsel = SimpleCookie(cookies).get(self.cookie_name(port))
        except CookieError:
            morsel = None
        return self.knows_token(None if morsel is None else morsel.value)


NO_TOKEN = Refusal(
    HTTPStatus.UNAUTHORIZED,
    "Open the page by the whole address that was printed when it began to be served: it ends in a token.",
)


def _name_of(host: str) -> str:
    """The host of a Host header, without the port.

    >>> _name_of("localhost:8080"), _name_of("[::1]:80"), _name_of("::1"), _name_of("")
    ('localhost', '::1', '::1', '')
    """
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host if host.count(":") > 1 else host.partition(":")[0]
