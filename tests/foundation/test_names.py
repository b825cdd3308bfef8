"""Names: what tools and agents may be called, and what foreign names become."""

# Tests of: names, errors, clock, lazy_regex

from __future__ import annotations

from typing import Annotated, Any

import pytest
from annotated_types import Len

from praval_tools import (
    Agent,
    DuplicateToolError,
    InvalidNameError,
    Tool,
    ToolCall,
    ToolCollection,
    ToolRegistry,
    ToolUsageError,
    normalize_name,
)
from praval_tools.names import format_count, to_plain_text


def named(name: str, **metadata: Any) -> Tool[..., Any]:
    """Return a tool of this name."""
    return Tool.from_function(lambda: None, name, description="Do nothing.", **metadata)


class TestForeignNames:
    @pytest.mark.parametrize(
        ("foreign", "expected"),
        [("sendMail", "send_mail"), ("HTTPServer", "http_server"), ("get user/by id", "get_user_by_id"),
         ("users.list-all", "users_list_all"), ("2fa", "_2fa"), ("__init__", "init"), ("ÄÖ", "_"), ("", "_")],
    )  # fmt: skip
    def test_become_snake_case(self, foreign: str, expected: str) -> None:
        """CamelCase is split, other characters become `_`, and a digit does not come first."""
        assert expected == normalize_name(foreign)

    @pytest.mark.parametrize("letter", ["x", "1", "Ab"])
    def test_that_are_too_long_stay_apart(self, letter: str) -> None:
        """A foreign name of any length becomes a legal one, another one for another name."""
        made = [normalize_name(letter * 200), normalize_name(letter * 201)]

        assert 2 == len(set(made))
        assert [128, 128] == [*map(len, made)]
        assert made == [named(name).name for name in made]


class TestClashes:
    @pytest.mark.parametrize("second", ["get_user", "GET_USER", "get-user", "get.user", "Get.User"])
    def test_names_that_are_one_on_the_wire(self, second: str) -> None:
        """Names that differ only by case, `-`, `_` or `.` are duplicates; the error proposes what works."""
        registry = ToolRegistry()
        registry.register_tool(named("get_user", owned_by="ann"))
        same = second == "get_user"

        with pytest.raises(DuplicateToolError, match="'get_user' is already registered, owned by 'ann'") as caught:
            registry.register_tool(named(second), replace=not same)

        assert same == ("replace=True" in str(caught.value))
        assert ["get_user"] == [tool.name for tool in registry]


class TestAgentNames:
    @pytest.mark.parametrize(
        "name", ["", " ", "a:b", "a\nb", "a\x00", "\u200b", "x" * 129, " ann", "operator", None, 3]
    )
    def test_that_are_refused(self, name: str) -> None:
        """One that is empty, too long, not printable or has a colon is refused, wherever it would be written down."""
        registry = ToolRegistry()
        for using in (
            lambda: Agent(name, registry=registry),
            lambda: registry.agent(name),
            lambda: registry.agent("ann").delegate(name),
            lambda: registry.block("add", name),
        ):
            with pytest.raises(InvalidNameError):
                using()

    @pytest.mark.parametrize("name", ["a", "Anna Müller", "研究", "x" * 128, "a/b@c"])
    def test_that_are_taken(self, name: str) -> None:
        """Printable text of up to 128 characters is a name."""
        assert name == Agent(name, registry=ToolRegistry()).name


class TestCounts:
    @pytest.mark.parametrize(
        ("number", "expected"), [(0, "0 calls"), (1, "1 call"), (2, "2 calls"), (1200, "1,200 calls")]
    )
    def test_have_a_noun_that_agrees(self, number: int, expected: str) -> None:
        """One is singular, all others plural."""
        assert expected == format_count(number, "call")
        assert expected.replace("calls", "processes").replace("call", "process") == format_count(
            number, "process", "processes"
        )

    def test_of_representations(self) -> None:
        """A registry and a collection of one tool say so."""
        registry = ToolRegistry(name="bank")
        collection = ToolCollection("all", registry=registry)
        collection.add_tool(named("pay"))

        assert "<ToolRegistry 'bank': 1 tool>" == repr(registry)
        assert "<ToolCollection 'all': 1 tool>" == repr(collection)

    def test_of_errors(self) -> None:
        """So do errors, also those that schemas word."""
        agent = Agent("ann", registry=ToolRegistry())

        @agent.tool
        def pay(to: Annotated[str, Len(1)], codes: Annotated[list[int], Len(1, 1)]) -> None:
            """Pay."""

        given: list[dict[str, Any]] = [
            {"to": "", "codes": [1]},
            {"to": "bob", "codes": [1, 2]},
            {"to": "bob", "codes": []},
        ]
        results = [agent.execute(ToolCall(name="pay", arguments=arguments)) for arguments in given]
        texts = [result.error or "" for result in results]

        assert ["shorter than 1 character" in texts[0], "more than 1 item" in texts[1], "fewer than 1 item" in texts[2]]
        assert [] == [text for text in texts if "1 characters" in text or "1 items" in text]
        with pytest.raises(ToolUsageError, match="takes 2 arguments by position, not 3"):
            agent.tools["pay"]("bob", [1], 4)


def test_an_object_that_calls_itself_a_text_is_read_as_its_text() -> None:
    """What an object says of its class does not count: the real one does."""

    class Pretender:
        __class__: Any = str

        def __str__(self) -> str:
            return "its text"

    assert "its text" == to_plain_text(Pretender())
