"""Writes text files, completely or not at all."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from praval_tools_files.errors import FileLimitError, NotTextError
from praval_tools_files.roots import Roots
from praval_tools_files.settings import FilesSettings

WriteMode = Literal["create", "overwrite"]


@frozen(kw_only=True)
class WriteResult:
    """What was written: `bytes` in UTF-8, and whether the file is a new one."""

    path: str
    bytes: int
    created: bool


def write_text(roots: Roots, settings: FilesSettings, path: str, text: str, mode: WriteMode) -> WriteResult:
    """
    Write a whole file, all or nothing.

    Raises:
        FileLimitError: The text is too large.
        NotTextError: It holds half a character, which UTF-8 cannot say.
    """
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as error:
        problem = f"the text holds half a character at {error.start}"
        raise NotTextError(path, problem, "Send whole characters; a surrogate alone is none.") from None
    if len(data) > settings.max_write_bytes:
        problem = f"the text has {len(data)} bytes, and {settings.max_write_bytes} are allowed"
        raise FileLimitError(path, problem, "Write several files, or ask the operator to raise max_write_bytes.")
    created = roots.write_file(path, data, overwrite=mode == "overwrite")
    return WriteResult(path=path, bytes=len(data), created=created)
