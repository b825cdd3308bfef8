"""Names: what tools and agents may be called, and what foreign names become."""

# Tests of: names, errors, clock, lazy_regex

from __future__ import annotations

from typing import Any

import pytest

from praval_tools import Agent, DuplicateToolError, InvalidNameError, Tool, ToolRegistry, normalize_name


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
