"""The plugin that the host loads: its settings and its tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Final, TypeAlias

import pluggy
from annotated_types import Ge, Le, MaxLen, MinLen
from attrs import frozen
from praval_tools import Tool, ToolContext, tool

from praval_tools_files.read import InvalidBytes, Listing, TextPart, list_folder, read_text
from praval_tools_files.roots import Roots
from praval_tools_files.search import SearchResult, search_text
from praval_tools_files.settings import FilesSettings
from praval_tools_files.write import WriteMode, WriteResult, write_text

AnyTool: TypeAlias = Tool[..., Any]

hookimpl = pluggy.HookimplMarker("praval_tools")

PACKAGE: Final = "praval-tools-files"
_TAGS: Final = ("files", "text")
_TIMEOUT_MARGIN: Final = 5.0
"""Seconds by which the call's time-out follows the tool's own, so that the tool's message is what is read."""


@hookimpl
def praval_tools_settings() -> type[FilesSettings]:
    """Return the class of the settings."""
    return FilesSettings


@hookimpl
def praval_tools_register_tools(settings: FilesSettings) -> Iterable[AnyTool]:
    """Return the tools, which work under the folders that *settings* declares."""
    roots = Roots(settings.roots, PACKAGE, settings.refuse_hard_links, settings.max_depth)
    declared = FilesTools(roots, settings)
    return (
        declared.build_list_tool(),
        declared.build_read_tool(),
        declared.build_search_tool(),
        declared.build_write_tool(),
    )


@frozen
class FilesTools:
    """Makes the tools for one set of folders."""

    roots: Roots
    settings: FilesSettings

    def _get_common_options(self) -> dict[str, Any]:
        return {
            "category": "files",
            "tags": _TAGS,
            "safety": "native",
            "open_world": False,
            "register": False,
            "timeout": self.settings.timeout + _TIMEOUT_MARGIN,
        }

    def build_list_tool(self) -> AnyTool:
        """Return the tool that lists."""

        @tool("files_list", read_only=True, title="List a folder", **self._get_common_options())
        def files_list(
            path: Annotated[str, MaxLen(4096)] = "",
            *,
            pattern: Annotated[str, MinLen(1), MaxLen(256)] = "*",
            limit: Annotated[int, Ge(1), Le(1_000)] = 200,
        ) -> Listing:
            """
            List what is in a folder: names, kinds, sizes in bytes, times of the last change.

            Args:
                path: The folder, beginning with the name of a declared one; empty lists the declared ones.
                pattern: Which names, with * and ? as in a shell.
                limit: At most how many.
            """
            return list_folder(self.roots, self.settings, path, pattern=pattern, limit=limit)

        return files_list

    def build_read_tool(self) -> AnyTool:
        """Return the tool that reads."""
        most = int(self.settings.max_read_bytes)

        @tool("files_read", read_only=True, title="Read a text file", **self._get_common_options())
        def files_read(
            path: Annotated[str, MinLen(1), MaxLen(4096)],
            *,
            offset: Annotated[int, Ge(0), Le(2**62)] = 0,
            length: Annotated[int, Ge(1)] = most,
            invalid: InvalidBytes = "refuse",
        ) -> TextPart:
            """
            Read a text file, or a part of it; `next_offset` of the result says where to go on.

            Args:
                path: The file, beginning with the name of a declared folder.
                offset: From which byte on.
                length: At most how many bytes, 4 or more; the operator may allow fewer.
                invalid: What to do where it is not UTF-8: refuse, or replace what is not.
            """
            return read_text(self.roots, path, offset=offset, length=min(length, most), invalid=invalid)

        return files_read

    def build_search_tool(self) -> AnyTool:
        """Return the tool that searches."""

        @tool("files_search", read_only=True, speed="slow", title="Search text files", **self._get_common_options())
        def files_search(
            context: ToolContext,
            path: Annotated[str, MinLen(1), MaxLen(4096)],
            text: Annotated[str, MinLen(1), MaxLen(1_000)],
            *,
            pattern: Annotated[str, MinLen(1), MaxLen(256)] = "*",
            ignore_case: bool = False,
            limit: Annotated[int, Ge(1), Le(500)] = 50,
        ) -> SearchResult:
            """
            Find lines that hold a text, in a file or in all files below a folder; plain text, no patterns.

            Args:
                path: The file or folder, beginning with the name of a declared folder.
                text: What the lines hold.
                pattern: Names of the files to search, with * and ? as in a shell.
                ignore_case: Whether small and capital letters are the same.
                limit: At most how many lines.
            """
            return search_text(
                self.roots, self.settings, path, text,
                pattern=pattern, ignore_case=ignore_case, limit=limit, cancelled=lambda: context.cancelled,
            )  # fmt: skip

        return files_search

    def build_write_tool(self) -> AnyTool:
        """Return the tool that writes."""

        @tool(
            "files_write",
            destructive=True,
            risk_level="medium",
            requires_approval=self.settings.approve_writes,
            approval_reason="It writes a file, and may replace one.",
            title="Write a text file",
            **self._get_common_options(),
        )
        def files_write(
            path: Annotated[str, MinLen(1), MaxLen(4096)], text: str, mode: WriteMode = "create"
        ) -> WriteResult:
            """
            Write a whole text file in UTF-8, all or nothing; its folder must be there.

            Args:
                path: The file, beginning with the name of a declared folder that may be written.
                text: All that is to stand in it.
                mode: "create" refuses where there is such a file, "overwrite" takes its place.
            """
            return write_text(self.roots, self.settings, path, text, mode)

        return files_write
