# Tests of: integrations/langchain_parameters
"""Functions of every kind that LangChain takes are judged and hidden as those of the registry's own tools."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import pytest

pytest.importorskip("langchain")

from langchain_core.tools import StructuredTool, Tool
from langchain_rig import WORDS, judge, record, registry  # noqa: F401
from pydantic import BaseModel, create_model

from praval_tools import Secret, ToolDefinitionError, ToolRegistry
from praval_tools.integrations.langchain import import_tools


class Login(BaseModel):
    to: str
    words: str


class Shout:
    """An object that can be called."""

    def __call__(self, text: str, times: int = 2) -> str:
        return text.upper() * times


def shout(text: str, times: int = 1) -> str:
    """Shout."""
    return text.upper() * times


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}


class TestFunctionsOfOtherKinds:
    def test_that_mark_any_argument(self, registry: ToolRegistry) -> None:
        """Broken promise: what a function marks is in no record. The mark of `**given` was not read."""

        def log_in(to: str, **given: Annotated[str, Secret()]) -> str:
            """Log in."""
            return to

        tool = StructuredTool.from_function(log_in, args_schema=Login)

        recorded = record(registry, tool, to="castle-of-ann", words=WORDS)
        assert "bottles" not in recorded and "castle-of-ann" in recorded

    @pytest.mark.parametrize("name", ["args", "kwargs", "config", "run_manager"])
    def test_whose_defaults_have_names_of_langchain(self, registry: ToolRegistry, name: str) -> None:
        """Broken promise: approvers are shown what the tool gets. LangChain fills in no default of such a name."""
        names = {"to": (str, ...), **({name: (int, 7)} if name in ("args", "kwargs") else {})}
        scope = dict[str, Any]()
        exec(f"def pay(to, {name}=5000): return f'{{{name}}} to {{to}}'", scope)
        tool = StructuredTool.from_function(
            scope["pay"], name="pay", description="Pay.", args_schema=create_model("Arguments", **names)
        )

        assert ({"to": "ann", name: 5000}, "5000 to ann") == judge(registry, tool, to="ann")

    def test_that_take_any_argument(self, registry: ToolRegistry) -> None:
        """Broken promise: a tool of LangChain works as it does there. Each call failed for LangChain's own default."""

        def shout_all(text: str, *args: str, **kwargs: str) -> str:
            """Shout all."""
            return " ".join((text, *args)).upper()

        tool = StructuredTool.from_function(shout_all)

        assert tool.run({"text": "a"}) == judge(registry, tool, text="a")[1] == "A"

    def test_of_one_input(self, registry: ToolRegistry) -> None:
        """Broken promise: a `Tool` without a class of arguments was always refused, for LangChain's own `config`."""
        tool = Tool(name="shout", description="Shout.", func=shout)

        assert ({"tool_input": "a", "times": 1}, "A") == judge(registry, tool, tool_input="a")

    def test_of_one_input_that_is_marked(self, registry: ToolRegistry) -> None:
        """What the function marks is hidden, whatever LangChain calls it."""

        def log_in(words: Annotated[str, Secret()]) -> str:
            return words

        assert "bottles" not in record(registry, Tool(name="log_in", description="L.", func=log_in), tool_input=WORDS)

    @pytest.mark.parametrize("function", [partial(shout, times=2), Shout()])
    def test_are_taken(self, registry: ToolRegistry, function: Any) -> None:
        """Broken promise: what is wrong with a tool is a `ToolDefinitionError`; partials and objects work."""
        tool = StructuredTool.from_function(function, name="shout", description="Shout.", args_schema=TEXT)

        assert "AA" == judge(registry, tool, text="a")[1]

    def test_show_what_they_bind_where_a_model_may_give_it(self, registry: ToolRegistry) -> None:
        """A default is shown to who judges; what a model cannot give stays the function's own."""
        schema = {**TEXT, "properties": {"text": {"type": "string"}, "times": {"type": "integer"}}}
        tools = [
            StructuredTool.from_function(partial(shout, times=2), name=name, description="S.", args_schema=arguments)
            for name, arguments in (("open", schema), ("closed", TEXT))
        ]

        assert {"text": "a", "times": 2} == judge(registry, tools[0], text="a")[0]
        assert {"text": "a"} == judge(registry, tools[1], text="a")[0]

    def test_whose_hints_do_not_resolve(self, registry: ToolRegistry) -> None:
        """Nobody could say what such a hint marks."""

        def late(text: NotThere) -> str:  # type: ignore[name-defined]  # noqa: F821
            return text

        tool = StructuredTool.from_function(late, name="late", description="Late.", args_schema=TEXT)

        with pytest.raises(ToolDefinitionError, match="'NotThere' is not defined"):
            import_tools(registry, [tool])
