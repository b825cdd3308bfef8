"""Which functions can be tools, and what is refused at their definition."""

# Tests of: tool, metadata

from __future__ import annotations

import asyncio
import functools
import inspect
import warnings
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest
from tool_cases import Counter, Opaque, add, no_hint, opaque, ran, refusal, wrapped
from type_strategies import ask, given_tool
from watchers import Odd, actors, make_watcher

from praval_tools import (
    AsyncTool,
    InvalidNameError,
    Outcome,
    Tool,
    ToolArgumentsError,
    ToolDefinitionError,
    ToolDefinitionWarning,
    ToolError,
    ToolMetadata,
    ToolRegistry,
    ToolUsageError,
    ToolValidationError,
    tool,
)  # fmt: skip

if TYPE_CHECKING:
    pass  # type: ignore[import-not-found]


def no_return(first: int):  # type: ignore[no-untyped-def]
    """Do."""


def opaque_result() -> list[Opaque]:
    """Do."""


def positional(first: int, /, second: int) -> None:
    """Do."""


def starred(*numbers: int) -> None:
    """Do."""


def bare_self(self, number: int) -> None:  # type: ignore[no-untyped-def]
    """Do."""


def broken_hint(first: "list[") -> None:  # type: ignore[valid-type]  # noqa: F722
    """Do."""


def opaque_extra(**more: Opaque) -> None:
    """Do."""


def everything(first, second: Opaque, /, third: complex, *rest: int, last):  # type: ignore[no-untyped-def]
    """Do."""


ONE: list[tuple[Any, list[str]]] = [
    (no_hint, ["'first'", "no type hint", "`first: str`"]),
    (no_return, ["no return hint", "`-> None`"]),
    (opaque, ["'first'", "Opaque", "no JSON form", "attrs class, a dataclass or a TypedDict"]),
    (opaque_result, ["result", "Opaque", "attrs class"]),
    (positional, ["'first'", "positional-only", "remove the `/`"]),
    (starred, ["`*numbers`", "take a list parameter"]),
    (bare_self, ["`self`", "register_object"]),
    (Counter.plus, ["`self`", "register_object"]),
    (broken_hint, ["'first'", "cannot be evaluated"]),
    (opaque_extra, ["`**more`", "Opaque"]),
    (Counter, ["class", "register_object"]),
    (int, ["class"]),
    (3, ["not callable", "int"]),
    ("add", ["not callable", "str"]),
    (None, ["not callable"]),
    (len, ["len", "wrap it in a function"]),
    (lambda number: number, ["lambda", "name="]),
]
"""What cannot be a tool, and the words of the error."""


class TestRefused:
    @pytest.mark.parametrize(("function", "words"), ONE, ids=lambda one: getattr(one, "__name__", "") or str(one)[:20])
    def test_one_problem_says_what_and_the_fix(self, function: Any, words: list[str]) -> None:
        """The error names the parameter, what is wrong, and what to write instead."""
        error = refusal(lambda: Tool.from_function(function))

        assert 1 == len(error.problems)
        for word in words:
            assert word in str(error)

    def test_all_problems_come_in_one_error(self) -> None:
        """One run finds everything that is wrong with a function and its metadata."""
        error = refusal(lambda: Tool.from_function(everything, risk_level="crticial", sped="fast", name="no name"))

        for word in ("'first'", "'second'", "'third'", "'last'", "`*rest`", "no return hint", "Opaque", "complex",
                     "'crticial'", "did you mean 'critical'", "'sped'; did you mean 'speed'", "'no name'"):  # fmt: skip
            assert word in str(error)
        assert len(error.problems) >= 11

    def test_the_place_of_the_function_is_named(self) -> None:
        """The error leads to file and line."""
        error = refusal(lambda: Tool.from_function(no_hint))

        assert f"{no_hint.__code__.co_filename}:{no_hint.__code__.co_firstlineno}" == error.where
        assert error.where in str(error)
        assert "'no_hint'" in str(error)

    def test_the_error_has_both_names_and_is_a_value_error(self) -> None:
        """Programs that catch the seeds' names or ValueError keep working."""
        assert ToolDefinitionError is ToolValidationError
        assert issubclass(ToolDefinitionError, ToolError)
        assert issubclass(ToolDefinitionError, ValueError)

    @pytest.mark.parametrize("spelling", [
        lambda: tool(register=False)(no_hint), lambda: tool("x", register=False)(no_hint),
        lambda: ToolRegistry().tool(no_hint), lambda: ToolRegistry().tool()(no_hint),
        lambda: Tool("x", callable=no_hint),        lambda: Tool("x", func=no_hint),
    ])  # fmt: skip
    def test_every_spelling_refuses(self, spelling: Callable[[], object]) -> None:
        """However a tool is declared, the same is refused."""
        assert "'first'" in str(refusal(spelling))

    @pytest.mark.parametrize("name", ["", " ", "1st", "a b", "é", "a/b", "-a", "x" * 129, "a\n", "a\0"])
    @pytest.mark.parametrize("spelling", [
        lambda name: Tool(name, callable=add), lambda name: Tool.from_function(add, name=name),
        lambda name: tool(name, register=False)(add), lambda name: tool(name=name, register=False)(add),
        lambda name: tool(tool_name=name, register=False)(add),
        lambda name: Tool(name=name, parameters={}, callable=lambda: 1),
    ], ids=["Tool", "from_function", "tool", "tool name=", "tool tool_name=", "given schema"])  # fmt: skip
    def test_bad_and_empty_names_are_refused(self, spelling: Callable[[str], object], name: str) -> None:
        """A declared name is checked, never changed, and an empty one does not mean none."""
        assert "name" in str(refusal(lambda: spelling(name)))

    @pytest.mark.parametrize("name", ["a", "_", "a-b", "a.b", "A9_", "x" * 128])
    def test_good_names_are_taken(self, name: str) -> None:
        """Letters, digits, `_`, `-` and `.` up to 128 characters are a name."""
        assert name == Tool.from_function(add, name=name).name

    def test_without_a_docstring_there_is_a_warning_at_the_declaration(self) -> None:
        """A tool that models know nothing about is pointed at, where it was declared."""

        def silent(number: int) -> int:
            return number

        with pytest.warns(ToolDefinitionWarning, match="'silent'") as found:
            Tool.from_function(silent)
        assert __file__ == found[0].filename

    @pytest.mark.parametrize(
        "metadata",
        [{"read_only": True, "destructive": True}, {"read_only": True, "idempotent": False}, {"speed": "quick"},
         {"safety": "safe"}, {"timeout": 0}, {"retries": -1}, {"max_result_size": 0}, {"errors": "quiet"},
         {"category": ""}, {"tags": "text"}, {"tags": [1]}, {"owned_by": "a:b"}, {"shared": "yes"},
         {"engine": "rocket"}, {"retry_on": (int,)}, {"open_world": "maybe"}, {"extra": 3}],
        ids=str,
    )  # fmt: skip
    def test_metadata_that_contradicts_itself_or_is_unknown(self, metadata: dict[str, Any]) -> None:
        """Each wrong value is an error that names the field, never a default."""
        error = refusal(lambda: Tool.from_function(add, **metadata))

        assert list(metadata)[-1] in str(error)


class TestGivenSchema:
    @pytest.mark.parametrize(
        ("schema", "word"),
        [
            ({"type": "array"}, "object"),
            ({"type": "string"}, "object"),
            ({"type": ["object", "null"]}, "object"),
            ({"type": "object", "properties": {"a": {"type": "strnig"}}}, "not valid JSON Schema"),
            ({"type": "object", "properties": []}, "not valid JSON Schema"),
            ({"type": "object", "required": "a"}, "not valid JSON Schema"),
            ({"type": "object", "properties": {"a": {"pattern": "("}}}, "not valid JSON Schema"),
            ({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}, "never fetched"),
            ({"type": "object", "properties": {"a": {"$ref": "file:///a.json"}}}, "never fetched"),
            ({"type": "object", "properties": {"a": {"$ref": "other.json#/a"}}}, "never fetched"),
            ({"type": "object", "properties": {"a": {"$ref": "#/$defs/no"}}}, "is unresolved"),
            ({"q": "strnig"}, "did you mean 'string'"),
            ({1: 2}, "not text"),
            ([], "not a JSON Schema"),
            ("object", "not a JSON Schema"),
        ],
        ids=lambda one: ascii(one)[:50],
    )
    def test_that_cannot_be_one_is_refused(self, schema: Any, word: str) -> None:
        """A root other than an object, an invalid schema, or a reference outside is refused at definition."""
        assert word in str(refusal(lambda: given_tool(schema)))

    @pytest.mark.parametrize(
        "schema",
        [
            {},
            {"q": "string"},
            {"type": "object"},
            {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "string"}}},
            {"type": "object", "properties": {"a": {"$ref": "#"}}},
            {"properties": {"a": {}}},
        ],
        ids=lambda one: ascii(one)[:50],
    )
    def test_that_can_be_one_is_taken(self, schema: dict[str, Any]) -> None:
        """No parameters, the short form, references inside, and an object without a named type are taken."""
        assert "object" == given_tool(schema).parameters["type"]

    def test_the_short_form_names_required_properties(self) -> None:
        """`{"q": "string"}` is short for one required property."""
        assert {
            "type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": False,
        } == given_tool({"q": "string"}).parameters  # fmt: skip

    @pytest.mark.parametrize("function", [Counter, 3, None])
    def test_does_not_make_a_tool_of_what_is_no_function(self, function: Any) -> None:
        """A class and what is not callable are refused there, too."""
        refusal(lambda: Tool("x", "X.", {"q": "string"}, function))

    @pytest.mark.parametrize("is_async", [True, False])
    def test_a_wrong_claim_of_being_async_is_refused(self, is_async: bool) -> None:
        """`is_async` is checked against the function."""
        function = add if is_async else Counter(1).later

        assert "async" in str(refusal(lambda: Tool("x", "X.", {"q": "string"}, function, is_async=is_async)))


def counting(number: int) -> Iterator[int]:
    """Count."""
    yield from range(number)


def generating(number: int) -> Generator[str, None, str]:
    """Count."""
    yield from map(str, range(number))
    return "done"


async def counting_later(number: int) -> AsyncIterator[int]:
    """Count."""
    for one in range(number):
        yield one


class TestKinds:
    @pytest.mark.parametrize(
        ("function", "name", "arguments", "expected"),
        [
            (Counter(3).plus, "plus", {"step": 4}, 7),
            (Counter(3).later, "later", {"step": 4}, 7),
            (Counter.twice, "twice", {"number": 4}, 8),
            (vars(Counter)["twice"], "twice", {"number": 4}, 8),
            (Counter.named, "named", {"text": "x"}, "Counter x"),
            (Counter(3), "Counter", {"step": 4, "times": 2}, 11),
            (functools.partial(add, second=5), "add", {"first": 1}, 6),
            (functools.partial(add, 5), "add", {"second": 1}, 6),
            (functools.partial(Counter(3).plus), "plus", {"step": 1}, 4),
            (functools.partial(functools.partial(add, 1), 2), "add", {}, 3),
            (wrapped(add), "add", {"first": 1, "second": 1}, 2),
            (counting, "counting", {"number": 3}, [0, 1, 2]),
            (generating, "generating", {"number": 2}, ["0", "1"]),
            (counting_later, "counting_later", {"number": 3}, [0, 1, 2]),
        ],
        ids=lambda one: getattr(one, "__name__", "") or ascii(one)[:30],
    )
    def test_of_callables_work(self, function: Any, name: str, arguments: dict[str, Any], expected: Any) -> None:
        """Methods, partials, callable instances, static methods, coroutines and generators are tools."""
        assert name == Tool.from_function(function).name
        assert expected == ran(function, arguments)

    @pytest.mark.parametrize(("function", "schema"), [
        (counting, {"type": "array", "items": {"type": "integer"}}),
        (generating, {"type": "array", "items": {"type": "string"}}),
        (counting_later, {"type": "array", "items": {"type": "integer"}}),
    ])  # fmt: skip
    def test_items_of_generators_form_a_list(self, function: Any, schema: dict[str, Any]) -> None:
        """The result schema of a generator is that of a list of its items."""
        assert schema == Tool.from_function(function).result_schema

    @pytest.mark.parametrize("function", [Counter(1).later, functools.partial(Counter(1).later)])
    def test_coroutine_functions_make_async_tools(self, function: Any) -> None:
        """A tool of an `async def` says so."""
        made = Tool.from_function(function)

        assert isinstance(made, AsyncTool)
        assert made.is_async

    def test_what_a_partial_binds_is_gone_for_callers(self) -> None:
        """A bound argument is not a parameter, and nobody can put another value in its place."""
        made = Tool.from_function(functools.partial(add, second=5))

        assert ["first"] == list(made.parameters["properties"])
        result = ask(made, {"first": 1, "second": 9})
        assert Outcome.INVALID_ARGUMENTS is result.outcome

    def test_what_a_partial_binds_does_not_come_back_as_an_extra(self) -> None:
        """With `**kwargs`, too, the name is refused at its own place."""

        def free(first: int, second: int = 2, **more: int) -> int:
            """Add."""
            return first + second + sum(more.values())

        result = ask(Tool.from_function(functools.partial(free, second=5)), {"first": 1, "second": 9})

        assert isinstance(result.exception, ToolArgumentsError)
        assert ["$.second"] == [one.path for one in result.exception.problems]

    @pytest.mark.parametrize(("function", "expected"), [(functools.partial(add, second=5), "Add."),
                                                        (Counter(3).plus, "Add."),
                                                        (wrapped(add), "Add.")])  # fmt: skip
    def test_the_description_is_that_of_the_function(self, function: Any, expected: str) -> None:
        """What a model reads is what the function under the wrapper says of itself, not what partial says."""
        assert expected == Tool.from_function(function).description

    def test_a_named_lambda_takes_anything(self) -> None:
        """A lambda cannot have hints: with a name it is taken, its parameters unconstrained."""
        made = Tool.from_function(lambda number, other=3: [number, other], name="pair", description="Pair.")

        assert {"number": {}, "other": {"default": 3}} == made.parameters["properties"]
        assert ["x", 3] == ask(made, {"number": "x"}).result


async def wait(number: int) -> int:
    """Wait."""
    return number


class TestNames:
    def test_accepts_the_fields_of_tiny_agent(self) -> None:
        """`Tool(name, fn=, doc=, signature=)` makes a tool; another signature is refused."""
        made = Tool("plus", fn=add, doc="Add two numbers.", signature=inspect.signature(add))

        assert ("plus", "Add two numbers.", "Add two numbers.") == (made.name, made.doc, made.description)
        assert (add, inspect.signature(add)) == (made.fn, made.signature)
        assert [AsyncTool, AsyncTool] == [type(Tool("wait", fn=wait)), type(Tool("wait", "Wait.", None, wait))]
        with pytest.raises(ToolDefinitionError, match="signature= is not that of the function"):
            Tool("plus", fn=add, signature=inspect.signature(wait))
        with pytest.raises(ToolUsageError, match="names of one thing"):
            Tool("plus", fn=add, func=wait)

    def test_metadata_never_renames_a_tool(self) -> None:
        """Metadata may have no name, or another one: the tool keeps its own; `with_metadata` says how to rename."""
        named, nameless = ToolMetadata("other", tags=["a"]), ToolMetadata(tags=["a"])

        for metadata in (named, nameless):
            made = Tool.from_function(add, metadata=metadata)
            assert ("add", "add", ("a",)) == (made.name, made.metadata.tool_name, made.metadata.custom_tags)
        assert "plus" == Tool("plus", callable=add, metadata=named).metadata.tool_name
        with pytest.raises(ToolUsageError, match="does not rename the tool 'add'"):
            made.with_metadata(tool_name="plus")
        with pytest.raises(ToolDefinitionError, match="it has no name"):
            Tool("", fn=add)

    def test_a_missing_name_hides_no_other_problem(self) -> None:
        """One error has them all: that there is no name, and a keyword that is unknown."""
        for function, name in ((add, ""), (lambda amount: amount, "<lambda>")):
            with pytest.raises(ToolDefinitionError, match="(?s)has no name.*riskk|riskk.*has no name"):
                Tool(name, fn=function, riskk="low")  # type: ignore[call-arg]

    def test_aliases_of_metadata_are_read_only(self) -> None:
        """ToolRegistry's names of fields read ours, and nothing can be set by them."""
        metadata = Tool.from_function(wait, tags=["a"], concurrency_safe=False).metadata

        assert (True, False, ("a",)) == (metadata.is_async, metadata.is_concurrency_safe, metadata.custom_tags)
        assert False is Tool.from_function(add).metadata.is_async
        with pytest.raises(ToolDefinitionError, match="unknown keyword 'custom_tags'"):
            Tool.from_function(add, custom_tags=["a"])

    def test_async_tools_are_coroutine_functions(self) -> None:
        """asyncio, and `inspect` where Python has a mark for it, take an async tool for what it is."""
        made, plain = Tool.from_function(wait), Tool.from_function(add)
        with warnings.catch_warnings():  # deprecated from Python 3.14 on
            warnings.simplefilter("ignore", DeprecationWarning)
            assert [True, False] == [asyncio.iscoroutinefunction(made), asyncio.iscoroutinefunction(plain)]
        if hasattr(inspect, "markcoroutinefunction"):
            assert [True, False] == [inspect.iscoroutinefunction(made), inspect.iscoroutinefunction(plain)]

    def test_shared_and_private_contradict_each_other(self) -> None:
        """A tool cannot be declared as both."""
        with pytest.raises(ToolDefinitionError, match="shared and private contradict each other"):
            Tool.from_function(add, shared=True, private=True)


def test_no_public_name_ends_with_an_underscore() -> None:
    """What users read and write on a tool has no spelling that only dodges another name."""
    names = {name for kind in (Tool, AsyncTool) for name in dir(kind)} | set(dir(Tool.from_function(add)))

    assert [] == [name for name in sorted(names) if name.endswith("_") and not name.startswith("_")]


PARTS: Final[dict[str, Callable[[ToolRegistry, Any], object]]] = {
    "decorator": lambda registry, part: registry.tool("delta", namespace=part)(add),
    "decorator's method": lambda registry, part: registry.tool("delta", namespace="space", method_name=part)(add),
    "method alone": lambda registry, part: registry.tool("delta", method_name=part)(add),
    "function": lambda registry, part: registry.register_tool(Tool.from_function(add, "delta", namespace=part)),
    "tool": lambda registry, part: registry.register_tool(Tool("delta", callable=add, namespace=part)),
    "tool's method": lambda registry, part: registry.register_tool(
        Tool("delta", callable=add, namespace="space", method_name=part)
    ),
    "object": lambda registry, part: registry.register_object(Counter(0), part),
}
"""What declares a tool with a value as namespace, or as the name after it."""


@pytest.mark.parametrize("way", PARTS)
class TestPartsOfNames:
    def test_an_object_is_refused(self, way: str) -> None:
        """Broken promise: it became a key of the state, and its code ran as the operator who asked for statistics."""
        registry = ToolRegistry()
        actors.clear()
        for part in (Odd("space"), 5, ("space",), b"space"):
            with pytest.raises(InvalidNameError, match="is not a valid tool name"):
                PARTS[way](registry, part)
        assert 0 == len(registry)
        assert "operator" not in actors

    def test_a_text_of_a_class_of_its_own_becomes_plain(self, way: str) -> None:
        """So that it runs no code where the tool is counted, shown or switched off."""
        registry = ToolRegistry()
        PARTS[way](registry, make_watcher(str)("space"))
        actors.clear()
        tool = registry.list_all_tools()[0]
        registry.get_registry_stats(), repr(registry.state), registry.disable(category="general"), tool.qualified_name
        assert [] == actors
        assert {type(part) for part in (tool.namespace, tool.method_name) if part is not None} == {str}
