"""What is read of a function that is a tool: parameters, docstrings, the context, and hints that resolve later."""

# Tests of: implementation, compiled, context

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import attrs
import pytest
from tool_cases import no_hint, opaque, ran, refusal
from type_strategies import ask

from praval_tools import (
    Outcome,
    Tool,
    ToolContext,
    ToolRegistry,
)  # fmt: skip

if TYPE_CHECKING:
    from nowhere import Missing  # type: ignore[import-not-found]


DOCSTRINGS = {
    "google": """Describe.

    At length.

    Args:
        first: The first.
        second: From the docstring.

    Returns:
        The same.

    Raises:
        ValueError: Never.
    """,
    "numpy": """Describe.

    At length.

    Parameters
    ----------
    first : int
        The first.

    Returns
    -------
    int
        The same.
    """,
    "sphinx": """Describe.

    At length.

    :param first: The first.
    :returns: The same.
    :raises ValueError: Never.
    """,
}


class TestParameters:
    def test_extra_keywords_are_additional_properties_of_their_type(self) -> None:
        """`**kwargs: int` takes any other name, with an integer."""

        def free(first: int, **more: int) -> dict[str, int]:
            """Gather."""
            return {"first": first, **more}

        made = Tool.from_function(free)
        assert {"type": "integer"} == made.parameters["additionalProperties"]
        assert {"first": 1, "other": 2, "more": 3} == ran(free, {"first": 1, "other": 2, "more": 3})
        assert Outcome.INVALID_ARGUMENTS is ask(made, {"first": 1, "other": "x"}).outcome
        assert 1 == len(ask(made, {"first": 1, "other": "2"}).repairs)

    @pytest.mark.parametrize("style", ["google", "numpy", "sphinx"])
    def test_the_docstring_describes_tool_and_parameters(self, style: str) -> None:
        """Each style gives the parameters' descriptions; what stands in its sections is not the tool's."""

        def described(first: int, second: Annotated[int, "From the hint."] = 0) -> int:
            return first

        described.__doc__ = DOCSTRINGS[style]
        made = Tool.from_function(described)

        assert "Describe.\n\nAt length." == made.description
        assert {"first": "The first.", "second": "From the hint."} == {
            name: one["description"] for name, one in made.parameters["properties"].items()
        }

    def test_keyword_only_and_defaults(self) -> None:
        """Required is what has no default; JSON-able defaults stand in the schema."""

        def shaped(first: int, second: str = "x", *, third: float, fourth: list[int] | None = None) -> None:
            """Shape."""

        schema = Tool.from_function(shaped).parameters
        assert ["first", "third"] == schema["required"]
        assert {"second": "x", "fourth": None} == {
            name: one["default"] for name, one in schema["properties"].items() if "default" in one
        }

    def test_without_strictness_missing_hints_mean_anything(self) -> None:
        """`strict=False` takes functions that others wrote; hints without a JSON form stay refused."""
        made = Tool.from_function(no_hint, strict=False)

        assert {"first": {}, "second": {"type": "integer"}} == made.parameters["properties"]
        assert "Opaque" in str(refusal(lambda: Tool.from_function(opaque, strict=False)))

    def test_the_context_is_injected_and_never_in_the_schema(self) -> None:
        """A parameter typed ToolContext is filled by the call; a model cannot pass one."""

        def asked(number: int, context: ToolContext, other: ToolContext | None = None) -> list[Any]:
            """Ask."""
            return [number, context.agent, context.tool_call_id, other is not None]

        made = Tool.from_function(asked)
        assert ["number"] == list(made.parameters["properties"])
        assert "context" not in made.metadata.parameters
        assert [3, "agent", "1", True] == ask(made, {"number": 3}).result
        for forged in (
            {"number": 3, "context": {}},
            {"number": 3, "context": None},
            {"number": 3, "other": {"agent": "x"}},
        ):
            assert Outcome.INVALID_ARGUMENTS is ask(made, forged).outcome

    def test_the_context_does_not_get_in_through_extra_keywords(self) -> None:
        """With `**kwargs` the name of the context stays reserved."""

        def asked(context: ToolContext, **more: Any) -> str | None:
            """Ask."""
            return context.agent

        result = ask(Tool.from_function(asked), {"context": {"agent": "admin"}})
        assert Outcome.INVALID_ARGUMENTS is result.outcome

    def test_hints_are_shown_as_python_text(self) -> None:
        """The metadata has each type as the text that one would write."""

        def shaped(first: list[int], second: int | None = None) -> float:
            """Shape."""
            return 1.0

        metadata = Tool.from_function(shaped).metadata
        assert {
            "first": {"type": "list[int]", "required": True, "default": None},
            "second": {"type": "int | None", "required": False, "default": None},
        } == metadata.parameters
        assert "float" == metadata.return_type


class TestForwardReferences:
    def test_are_resolved_at_first_use(self) -> None:
        """A class that is defined after the function is found when the tool is first used."""
        names: dict[str, Any] = {}
        exec("def late(one: 'Late', more: 'list[Late]') -> 'Late':\n    'Give.'\n    return more[0]", names)
        made = Tool.from_function(names["late"])
        names["Late"] = attrs.make_class("Late", {"x": attrs.field(type=int)})

        assert 2 == ask(made, {"one": {"x": 1}, "more": [{"x": 2}]}).result.x

    def test_that_stay_unresolved_are_refused_at_first_use(self) -> None:
        """A name that is still missing at first use is refused then, with what to do."""

        def lost(one: Missing) -> Missing:
            """Lose."""

        error = refusal(lambda: Tool.from_function(lost).parameters)
        assert "'one'" in str(error)
        assert "Missing" in str(error)
        assert "import or define" in str(error)

    def test_that_stay_unresolved_end_a_call_in_a_result(self) -> None:
        """A call of such a tool gives a result like every other call, and raises nothing."""

        def lost(one: Missing) -> int:
            """Lose."""
            return 1

        result = ask(Tool.from_function(lost), {"one": 1})

        assert Outcome.TOOL_ERROR is result.outcome
        assert "Missing" in str(result.error)

    def test_are_found_by_the_registry_check(self) -> None:
        """An unresolved hint is among the registry's problems before any call meets it."""

        def lost(one: Missing) -> int:
            """Lose."""
            return 1

        registry = ToolRegistry()
        registry.register_tool(Tool.from_function(lost))

        assert ["definition"] == [one.kind for one in registry.problems() if "Missing" in str(one)]

    def test_do_not_make_a_tool_strict(self) -> None:
        """A tool that was declared with `strict=False` stays so when its references resolve."""
        names: dict[str, Any] = {}
        exec("def late(one, more: 'Late'):\n    'Give.'\n    return [one, more.x]", names)
        made = Tool.from_function(names["late"], strict=False)
        names["Late"] = attrs.make_class("Late", {"x": attrs.field(type=int)})

        assert ["a", 2] == ask(made, {"one": "a", "more": {"x": 2}}).result

    def test_to_the_context_are_resolved_without_an_import(self) -> None:
        """ToolContext may be imported for type checkers only."""
        names: dict[str, Any] = {}
        exec("def asked(context: 'ToolContext') -> str:\n    'Ask.'\n    return context.agent", names)

        assert "agent" == ran(names["asked"], {})
