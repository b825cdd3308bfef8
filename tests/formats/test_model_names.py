"""The format of a model's provider, by the model's name."""

from __future__ import annotations

import pytest

from praval_tools import Agent, ToolRegistry, ToolUsageError
from praval_tools.formats.model_names import find_format_of_model


@pytest.mark.parametrize(
    ("form", "models"),
    [
        ("openai-chat", "gpt-4o gpt-5-mini o3 o4-mini chatgpt-4o-latest openai/gpt-4.1 azure.gpt-4o GPT-4o"),
        ("openai-chat", "mistral-large-latest llama3.1:8b qwen2.5-72b deepseek-chat grok-4 meta-llama/Llama-3.3-70B"),
        ("anthropic", "claude-opus-4-1 anthropic/claude-3.5-sonnet us.anthropic.claude-sonnet-4 claude"),
        ("gemini", "gemini-2.5-pro models/gemini-2.0-flash google/gemini-pro"),
    ],
)
def test_names_have_formats(form: str, models: str) -> None:
    """Families are known by the beginning of the name, with or without the provider's before it."""
    assert {form} == {find_format_of_model(model) for model in models.split()}


@pytest.mark.parametrize("model", ["", "my-model", "notgpt-4", "o", "photo3", "declaude"])
def test_other_names_are_errors(model: str) -> None:
    """A name of no family is an error that says what to call instead."""
    with pytest.raises(ToolUsageError, match=r"schemas\(agent, api_format\)"):
        find_format_of_model(model)


def test_schemas_for_model() -> None:
    """They are those of the format, with its options."""
    registry = ToolRegistry()
    ann = Agent("ann", registry=registry)

    @ann.tool
    def add(x: float, y: float) -> float:
        """Add."""
        return x + y

    assert registry.schemas("ann", "openai-chat") == registry.schemas_for_model("ann", "gpt-4o")
    assert registry.schemas("ann", "anthropic", strict=True) == registry.schemas_for_model(ann, "claude-x", strict=True)
