"""Provider formats: pure functions from name, description and schema to a vendor's wire shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from praval_tools.errors import UnknownFormatError
from praval_tools.formats import anthropic, gemini, mcp, openai_chat, openai_responses

Exporter = Callable[[str, str, dict[str, Any], Any], dict[str, Any]]

FORMATS: Final[Mapping[str, Exporter]] = {
    "openai-chat": openai_chat.export,
    "openai-responses": openai_responses.export,
    "openai-response": openai_responses.export,
    "anthropic": anthropic.export,
    "gemini": gemini.export,
    "mcp": mcp.export,
}


def exporter(api_format: str) -> Exporter:
    """
    Return the function that writes a tool in *api_format*.

    Raises:
        UnknownFormatError: No such format; the text lists those that there are.
    """
    try:
        return FORMATS[api_format]
    except (KeyError, TypeError):
        raise UnknownFormatError(str(api_format), FORMATS) from None


def export(
    api_format: str, name: str, description: str, parameters: dict[str, Any], metadata: Any = None
) -> dict[str, Any]:
    """Return one tool in *api_format*; *parameters* becomes part of it."""
    return exporter(api_format)(name, description, parameters, metadata)
