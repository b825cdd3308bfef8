"""The settings that the host may set, each checked."""

from __future__ import annotations

import os
import re
from typing import Any

from attrs import Attribute, field, frozen

from praval_tools_files.errors import FilesSettingsError

_ROOT_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")

HOW_TO_DECLARE_ROOT = (
    'Declare a folder in praval_tools.toml: [[plugins."{package}".settings.roots]] with name = "reports", '
    'path = "/srv/reports" and, for a folder that may be written, writable = true.'
)


def _check_root_name(_: object, __: Attribute[str], value: str) -> None:
    if not isinstance(value, str) or _ROOT_NAME.fullmatch(value) is None:
        raise FilesSettingsError(
            str(value), "is not a valid name for a folder", "Use 1 to 64 of the characters A-Z a-z 0-9 _ and -."
        )


def _check_absolute_path(_: object, __: Attribute[str], value: str) -> None:
    if not isinstance(value, str) or "\0" in value or not os.path.isabs(value):
        raise FilesSettingsError(str(value), "is not an absolute path", "Write the whole path of the folder.")
    if {".", ".."} & set(value.split("/")):
        raise FilesSettingsError(value, "has '.' or '..' in it", "Write the path of the folder itself.")


def _strip_trailing_slash(path: object) -> object:
    """Drop a slash at the end, which would have a link followed."""
    return (path.rstrip("/") or "/") if isinstance(path, str) and path.startswith("/") else path


def check_positive(instance: object, attribute: Attribute[Any], value: float) -> None:
    """Refuse a limit that is not a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
        raise FilesSettingsError(attribute.name, f"is {value!r}", "Set a positive number.")


def check_positive_integer(instance: object, attribute: Attribute[Any], value: float) -> None:
    """Refuse a limit that is not a positive whole number."""
    check_positive(instance, attribute, value)
    if not isinstance(value, int):
        raise FilesSettingsError(attribute.name, f"is {value!r}", "Set a positive whole number.")


def check_boolean(_: object, attribute: Attribute[Any], value: bool) -> None:
    """Refuse what is neither true nor false; a text like "no" would count as true."""
    if not isinstance(value, bool):
        raise FilesSettingsError(attribute.name, f"is {value!r}", "Set true or false.")


def check_unique_roots(_: object, __: Attribute[Any], roots: tuple[Root, ...]) -> None:
    """Refuse what is not a Root, and two folders of one name."""
    if wrong := [root for root in roots if not isinstance(root, Root)]:
        raise FilesSettingsError("roots", f"has {wrong[0]!r} in it", "Give each folder as a Root, with name and path.")
    names = [root.name for root in roots]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise FilesSettingsError(twice[0], "is the name of two folders", "Give each folder a name of its own.")


@frozen(kw_only=True)
class Root:
    """
    A folder that the tools may use, and all below it.

    Args:
        name: What paths of the tools begin with: `reports/2026/may.txt`.
        path: The folder, absolute; it must not be a symbolic link itself.
        writable: Whether files may be written there.
    """

    name: str = field(validator=_check_root_name)
    path: str = field(validator=_check_absolute_path, converter=_strip_trailing_slash)
    writable: bool = field(default=False, validator=check_boolean)


@frozen(kw_only=True)
class FilesSettings:
    """
    What the host may set in `[plugins."praval-tools-files".settings]`.

    Args:
        roots: The folders that the tools may use; without any, each tool says how to declare one.
        approve_writes: Whether a person approves each write.
        refuse_hard_links: Whether files with a second name are refused; that name may lie outside the folders.
        max_read_bytes: How much `files_read` gives at once, in bytes.
        max_write_bytes: How large a written text may be, in bytes.
        max_entries: How many entries of one folder are looked at.
        max_search_bytes: How much one search reads in all, in bytes.
        max_depth: How many folders deep a path and a search may go.
        timeout: Seconds until a call is given up.
    """

    roots: tuple[Root, ...] = field(default=(), converter=tuple, validator=check_unique_roots)
    approve_writes: bool = field(default=True, validator=check_boolean)
    refuse_hard_links: bool = field(default=False, validator=check_boolean)
    max_read_bytes: int = field(default=262_144, validator=check_positive_integer)
    max_write_bytes: int = field(default=1_048_576, validator=check_positive_integer)
    max_entries: int = field(default=10_000, validator=check_positive_integer)
    max_search_bytes: int = field(default=67_108_864, validator=check_positive_integer)
    max_depth: int = field(default=32, validator=check_positive_integer)
    timeout: float = field(default=20.0, validator=check_positive)
