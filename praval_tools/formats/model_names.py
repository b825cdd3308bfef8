"""Which provider's format a model takes, by the model's name."""

from __future__ import annotations

import re
from typing import Final

from praval_tools.errors import ToolUsageError

_FAMILIES: Final = (
    ("anthropic", re.compile(r"(^|[/.:@])claude\b")),
    ("gemini", re.compile(r"(^|[/.:@])(gemini|learnlm)\b")),
    (
        "openai-chat",
        re.compile(
            r"(^|[/.:@])(gpt-|chatgpt-|o[1-9](-|$)|codex-|mistral|ministral|magistral|codestral|devstral|mixtral|llama|meta-llama"
            r"|qwen|qwq|deepseek|grok|kimi|glm-|command-|phi-|gemma)"
        ),
    ),
)
"""The beginnings of names, also behind those of a provider: `openai/gpt-4o`, `us.anthropic.claude-opus-4`."""


def find_format_of_model(model: str) -> str:
    """
    Return the name of the format that tools have for a model.

    Raises:
        ToolUsageError: The name is of no family that is known.
    """
    for name, pattern in _FAMILIES:
        if pattern.search(str(model).lower()):
            return name
    raise ToolUsageError(
        f"Which format {str(model)[:80]!r} takes is not known: call schemas(agent, api_format), which names it.",
        "unknown-model",
    )
