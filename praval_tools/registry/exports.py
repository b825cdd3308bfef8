"""What a registry shows of an agent's tools to models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from praval_tools.formats import Format
    from praval_tools.registry.dispatch import CallDispatcher


class SchemaExportMixin:
    """What a registry has for those who talk to models."""

    _dispatcher: CallDispatcher

    def schemas(
        self, agent: Any, api_format: str | Format = "openai-chat", *, strict: bool = False,
        tags: Iterable[str] | None = None, exclude_tags: Iterable[str] | None = None, think_augment: bool = False,
    ) -> list[dict[str, Any]]:  # fmt: skip
        """
        Return an agent's tools in a provider's format, sorted by name: a fresh copy, to be changed at will.

        Args:
            agent: An agent, or its name.
            api_format: `openai-chat`, `openai-responses`, `anthropic`, `gemini`, `mcp`.
            strict: For the provider's strict mode; a tool that cannot be strict is in it as it is without.
            tags: Only tools with one of these.
            exclude_tags: No tools with one of these.
            think_augment: Ask the model for the reason of each call; see `parse_tool_calls`.

        Raises:
            UnknownFormatError: No such format; it is a `ValueError`, and the text lists them.
        """
        return self._dispatcher.get_agent_toolset(agent).schemas(
            api_format, strict=strict, tags=tags, exclude_tags=exclude_tags, think_augment=think_augment
        )

    def schemas_json(
        self, agent: Any, api_format: str | Format = "openai-chat", *, strict: bool = False,
        tags: Iterable[str] | None = None, exclude_tags: Iterable[str] | None = None, think_augment: bool = False,
    ) -> bytes:  # fmt: skip
        """Return what `schemas` returns as JSON text, the same bytes until one of the agent's tools changes."""
        return self._dispatcher.get_agent_toolset(agent).schemas_json(
            api_format, strict=strict, tags=tags, exclude_tags=exclude_tags, think_augment=think_augment
        )
