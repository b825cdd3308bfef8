"""The secret key of the redaction markers: from the environment, else from a file that only its owner can read."""

from __future__ import annotations

import hmac
import os
import re
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from praval_tools.errors import RedactionKeyError
from praval_tools.journal.storage.atomic_files import write_atomically
from praval_tools.journal.storage.open_store import is_database_url
from praval_tools.journal.storage.protocol import Record, Store

KEY_VARIABLE: Final = "PRAVAL_TOOLS_KEY"
_MIN_KEY_LENGTH: Final = 16
_NEW_KEY_LENGTH: Final = 32
_MAX_KEY_LENGTH: Final = 64
_HEX_PREFIX: Final = "hex:"
_MARKER_START: Final = b"[secret "
_MARKER: Final = re.compile(rb"\[secret [0-9a-f]{32}\]")
_KEY_ID_PREFIX: Final = "redaction key "
_KEY_ID_DOMAIN: Final = b"praval-tools/key-id/1"
_KEY_ID_DIGITS: Final = 32
_VARIABLE_FIX: Final = (
    f"Or set {KEY_VARIABLE} to 16 characters or more, the same for every process that uses the store."
)


def load_key(
    store: str | os.PathLike[str] | None,
    *,
    holds_markers: Callable[[], bool] = lambda: False,
    environ: Mapping[str, str] = os.environ,
    random: Callable[[int], bytes] = os.urandom,
) -> bytes:
    """
    Return the key for the markers of a store; the same for all of its processes.

    The file is created where there is none, whole from the first moment on: of two processes one creates it, both read
    it. It belongs to the store: without it, old markers compare equal to nothing.

    Args:
        store: The file of the store, beside which `<store>.key` lies; None: a key for this process alone.
        holds_markers: Tells whether the store holds markers, for which a new key would be a wrong one.
        environ: Where `PRAVAL_TOOLS_KEY` is looked for first.
        random: Makes the bytes of a new key.

    Raises:
        RedactionKeyError: The variable is too short; the file is missing beside a store with markers, readable for
            others, of another owner, damaged, or cannot be created.
    """
    text = environ.get(KEY_VARIABLE)
    if text is not None:
        key = _parse_key(text)
        if len(key) < _MIN_KEY_LENGTH:
            raise RedactionKeyError(
                KEY_VARIABLE, f"it has fewer than {_MIN_KEY_LENGTH} characters", "Set a longer one or unset it."
            )
        return key
    if store is None:
        return random(_NEW_KEY_LENGTH)
    path = Path(f"{os.fspath(store)}.key")
    try:
        return _read_key_file(path)
    except FileNotFoundError:
        if not holds_markers():
            _create_key_file(path, random)
    try:
        return _read_key_file(path)
    except FileNotFoundError:  # looked for twice: another process may have created it, and written markers, in between
        fix = "Restore it from a backup: with a new one a replay would not find those calls, and would run them again."
        raise RedactionKeyError(
            str(path), "it is missing, and the journal holds secrets hidden with it", f"{fix} {_VARIABLE_FIX}"
        ) from None


def _parse_key(text: str) -> bytes:
    """Return the key that the variable holds: the bytes of a text, or after `hex:` the content of a key file."""
    if text.startswith(_HEX_PREFIX):
        try:
            return bytes.fromhex(text.removeprefix(_HEX_PREFIX))
        except ValueError:  # says nothing of the content: it is the key
            raise RedactionKeyError(KEY_VARIABLE, "what follows `hex:` is not hexadecimal", "Correct it.") from None
    return text.encode("utf-8", "surrogateescape")


def load_store_key(store: Store) -> bytes:
    """
    Return the key for the markers of *store*; see `load_key`.

    Raises:
        RedactionKeyError: It is also another key than the one of the store's markers.
    """
    if is_private(store):
        return load_key(None)
    if is_database_url(store.name) and KEY_VARIABLE not in os.environ:
        problem = f"it is not set, and the processes that share {store.name!r} need one key to hide secrets"
        raise RedactionKeyError(KEY_VARIABLE, problem, "Set it to the same secret text for all of them.")
    key = load_key(store.name, holds_markers=lambda: any(map(has_marker, store.read())))
    key_ids = read_key_ids(store)
    if key_ids and compute_key_id(key) not in key_ids:
        place = KEY_VARIABLE if KEY_VARIABLE in os.environ else f"{store.name}.key"
        fix = "Use the one of before: with this one a replay would not find those calls, and would run them again."
        raise RedactionKeyError(place, f"it is not the one that hides the secrets in {store.name!r}", fix)
    return key


def is_private(store: Store) -> bool:
    """Tell whether a store ends with this process, and needs no key that another could read."""
    return store.name == "memory"


def has_marker(record: Record) -> bool:
    """Tell whether a record holds a marker."""
    at = record.body.find(_MARKER_START)  # far faster than a pattern, and most records have none
    return at >= 0 and _MARKER.search(record.body, at) is not None


def compute_key_id(key: bytes) -> str:
    """Return what stands for a key among the counts of a store, from its first marker on."""
    return f"{_KEY_ID_PREFIX}{hmac.digest(key, _KEY_ID_DOMAIN, 'sha256').hex()[:_KEY_ID_DIGITS]}"


def read_key_ids(store: Store) -> set[str]:
    """Return the ids of the keys with which the markers of a store were made; none where an older release wrote it."""
    return {use.grant_id for use in store.state().uses if use.grant_id.startswith(_KEY_ID_PREFIX)}


def _create_key_file(path: Path, random: Callable[[int], bytes]) -> None:
    """Create the file, unless another process was first."""
    draft, text = path.with_name(f".{path.name}.{random(8).hex()}"), random(_NEW_KEY_LENGTH).hex() + "\n"
    try:
        write_atomically(path, text, draft, mode=0o600, publish=os.link)
    except FileExistsError:  # the other's key is as good
        pass
    except OSError as error:
        raise RedactionKeyError(str(path), f"it cannot be created ({error.strerror})", _VARIABLE_FIX) from error


def _read_key_file(path: Path) -> bytes:
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except FileNotFoundError:
        raise
    except OSError as error:
        fix = f"Make it a file that you own and nobody else can read. {_VARIABLE_FIX}"
        raise RedactionKeyError(str(path), f"it cannot be opened ({error.strerror})", fix) from error
    try:
        _check_key_file(path, os.fstat(handle))
        content = os.read(handle, 1024)
    finally:
        os.close(handle)
    try:
        key = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:  # says nothing of the content: it is the key
        key = b""
    if not _MIN_KEY_LENGTH <= len(key) <= _MAX_KEY_LENGTH:
        fix = f"Restore it from a backup; a new one makes old markers compare equal to nothing. {_VARIABLE_FIX}"
        raise RedactionKeyError(str(path), "it holds no key", fix) from None
    return key


def _check_key_file(path: Path, status: os.stat_result) -> None:
    problem = ""
    if not stat.S_ISREG(status.st_mode):
        problem, fix = "it is not a regular file", "Remove it."
    elif os.name == "nt":  # permissions are another matter there
        return
    elif status.st_uid != os.geteuid():
        problem = f"it belongs to user {status.st_uid}, and this process runs as {os.geteuid()}"
        fix = "Whoever owns it knows the key: chown it, or create a new one."
    elif status.st_mode & 0o077:
        problem = f"others may read or write it (mode {stat.S_IMODE(status.st_mode):04o})"
        fix = f"chmod 600 {path}, and create a new one if somebody may have read it."
    if problem:
        raise RedactionKeyError(str(path), problem, f"{fix} {_VARIABLE_FIX}")
