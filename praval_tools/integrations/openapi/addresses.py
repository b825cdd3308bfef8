"""Compares and joins web addresses: where documents, servers and redirects may lead."""

from __future__ import annotations

from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from praval_tools.errors import ToolUsageError

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def is_web_address(text: str) -> bool:
    """Tell whether *text* begins as the URL of something on the web."""
    return text[:8].lower().startswith(("http://", "https://"))


def check_web_address(url: str, what: str) -> str:
    """
    Return *url* if a request can be sent there.

    Raises:
        ToolUsageError: It cannot, or it holds a user or a password.
    """
    if problem := find_address_problem(url):
        raise ToolUsageError(f"The URL of {what} {problem}.")
    return url


def find_address_problem(url: str) -> str:
    """Return why no request can be sent to *url*; empty where one can."""
    try:
        parts = urlsplit(url)
        parts.port  # noqa: B018  # raises for one that is not a number
    except ValueError:
        return "is not a URL"
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        return "is not an http:// or https:// URL with a host"
    if parts.username is not None or parts.password is not None:
        return "holds a user or a password; pass credentials by auth_env="
    if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return "holds characters that have to be percent-encoded"
    return ""


def get_origin(url: str) -> str:
    """Return the scheme, the host and the port of a URL, in the one form in which they are compared."""
    parts: SplitResult = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{parts.port or _DEFAULT_PORTS.get(parts.scheme)}"


def is_below(target: str, place: str) -> bool:
    """Tell whether *target*, a URL or an absolute path, is *place* or below it."""
    if is_web_address(target):
        if not is_web_address(place) or get_origin(target) != get_origin(place):
            return False
        path, base = urlsplit(target).path or "/", urlsplit(place).path or "/"
        return path == base or path.startswith(base if base.endswith("/") else f"{base}/")
    return not is_web_address(place) and Path(target).is_relative_to(Path(place).resolve())


def is_same_service(target: str, origin: str) -> bool:
    """Tell whether *target* is at *origin*, or at the same host by https instead of http."""
    own = get_origin(target)
    return own == origin or (origin.startswith("http:") and own == f"https{origin[4:].removesuffix(':80')}:443")
