"""Stores bearer tokens in a file, for registries whose journal keeps none."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import msgspec

from praval_tools.errors import JournalFileError
from praval_tools.journal.storage.atomic_files import write_atomically
from praval_tools.journal.storage.file_locks import hold_lock
from praval_tools.journal.storage.protocol import TokenRow


class TokenFile:
    """
    The tokens in a JSON file that only its user can read; see `TokenStorage`.

    Every change replaces the file, so a reader sees the old tokens or the new ones. One that others may read or write
    is refused: whoever writes it could speak for any agent.

    Args:
        path: The file, or a link to it; created with the first token, in a folder that exists.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        self._content: bytes | None = None
        self._tokens: dict[str, TokenRow] = {}

    def find_token(self, token_id: str) -> TokenRow | None:
        """Return a token, or None where there is none."""
        return self._read_tokens().get(token_id)

    def list_tokens(self) -> list[TokenRow]:
        """Return the tokens, the oldest first."""
        return list(self._read_tokens().values())

    def add_token(self, row: TokenRow) -> None:
        """Store a token."""
        self._replace_tokens(lambda tokens: {**tokens, row.id: row})

    def delete_token(self, token_id: str) -> bool:
        """Forget a token; tell whether there was one."""
        before = self._replace_tokens(lambda tokens: {key: row for key, row in tokens.items() if key != token_id})
        return token_id in before

    def _replace_tokens(self, change: Callable[[dict[str, TokenRow]], dict[str, TokenRow]]) -> dict[str, TokenRow]:
        """Replace the tokens by what *change* makes of them; return those from before."""
        try:
            with hold_lock(self._path.with_name(f"{self._path.name}.lock")):
                before = self._read_tokens()
                text = json.dumps(msgspec.to_builtins(list(change(before).values())), indent=1)
                draft = self._path.with_name(f"{self._path.name}.draft")
                draft.unlink(missing_ok=True)  # that of a process that was killed
                write_atomically(self._path, text, draft, mode=0o600)
        except OSError as error:
            raise self._make_error(f"it cannot be written ({error})", "Make its folder writable.") from error
        return before

    def _read_tokens(self) -> dict[str, TokenRow]:
        try:
            with open(self._path, "rb", opener=_open_unless_waiting) as file:
                self._check(os.fstat(file.fileno()))
                content = file.read()
            if content != self._content:
                rows = msgspec.json.decode(content, type=list[TokenRow])
                self._tokens, self._content = {row.id: row for row in rows}, content
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._make_error(f"it cannot be read ({error})", "Make it readable for this user.") from error
        except msgspec.DecodeError as error:
            fix = "Restore it, or delete it and add tokens anew."
            raise self._make_error(f"it holds no tokens ({error})", fix) from error
        return self._tokens

    def _check(self, status: os.stat_result) -> None:
        """Refuse a file that somebody else may have written."""
        if not stat.S_ISREG(status.st_mode):
            raise self._make_error("it is not a regular file", "Name another file.")
        if status.st_uid not in (0, user := os.geteuid()) and user:
            raise self._make_error(f"it belongs to user {status.st_uid}", "Delete it and add tokens anew, or chown it.")
        if status.st_mode & 0o077:
            problem = f"others may read or write it (mode {stat.S_IMODE(status.st_mode):04o})"
            raise self._make_error(problem, f"If you know all its tokens, chmod 600 {self._path}; else delete it.")

    def _make_error(self, problem: str, fix: str) -> JournalFileError:
        return JournalFileError(str(self._path), problem, fix)


def _open_unless_waiting(path: str, flags: int) -> int:
    """Open a file without waiting for the other end, which a named pipe may not have."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
