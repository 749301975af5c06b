"""The address that a reporter listens at: `PORT` or `HOST:PORT`."""

from __future__ import annotations

from headrace.lowlevel.errors import HeadraceError

LOOPBACK = "127.0.0.1"
"""The default host: only this machine can connect."""
_LAST_PORT = 65_535


class PortError(HeadraceError, OSError):
    """Nothing can be served at the given address. Nothing has run.

    >>> from headrace.runners.reporting.prometheus import PrometheusReporter
    >>> with PrometheusReporter(0) as first, PrometheusReporter(first.port):
    ...     pass
    Traceback (most recent call last):
      ...
    headrace.runners.reporting.address.PortError: ...
    """


def port_error(error: OSError, served: str, host: str, port: int | None) -> PortError:
    """The error of a port that cannot be opened; `served` is what was to be served there."""
    return PortError(
        f"{served} cannot be served at {host}, port {port} ({error.strerror or error}); give another port, or 0 for "
        "one that is free, and an address of this machine"
    )


def host_and_port(address: str, served: str, example: int) -> tuple[str, int]:
    """Parse an address; without a host, it is that of this machine only.

    Args:
        address: `PORT` or `HOST:PORT`; an IPv6 address is in brackets.
        served: What is to be served, for the message of an error.
        example: A port for that message.

    Raises:
        ValueError: The text is not such an address.

    >>> host_and_port("9464", "metrics", 9464), host_and_port("[::1]:0", "metrics", 9464)
    (('127.0.0.1', 9464), ('::1', 0))
    """
    host, colon, port = address.rpartition(":")
    if not (port.isascii() and port.isdecimal()) or int(port) > _LAST_PORT or (colon and not host):
        raise ValueError(
            f"{served} cannot be served at {address!r}; give a port (0 to {_LAST_PORT}), or HOST:PORT, such as "
            f"{example} or 0.0.0.0:{example}"
        )
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)
