"""Hostile text reaches no terminal, in any command that works on a registry."""

from __future__ import annotations

import json

import pytest
from cli_rig import BANK, ENV, App, Run, app, run  # noqa: F401

from praval_tools.cli.common import format_arguments, sanitize_text

HOSTILE = """
from praval_tools import Agent, Tool, ToolRegistry

registry = ToolRegistry()
registry.register_tool(Tool(
    "evil", description="[red]not red[/red] \\x1b[31mred\\x1b[0m\\nsecond line \\x9b2J \\u202egnol " + "x" * 5000,
    parameters={"type": "object", "properties": {
        "[bold]p": {"type": "string", "description": "\\x1b]0;title\\x07[link=http://x]"}}},
    callable=lambda **given: "\\x1b[2Jgone", shared=True, category="[blink]\\x1b[5m", tags=["\\x1b[7m"],
))
Agent("[red]robot", registry=registry)
"""


class TestHostileText:
    @pytest.mark.parametrize(
        "command",
        [
            ["list"], ["show", "evil"], ["agents"], ["matrix"], ["why", "[red]robot", "evil"], ["check"],
            ["why", "\x1b[31mx", "\x1b[31my"], ["call", "[red]robot", "\x1b[31m"], ["show", "\x1b[2J"],
            ["list", "--agent", "\x1b[31m"],
        ],
        ids=lambda command: command[0],
    )  # fmt: skip
    def test_is_shown_and_never_interpreted(self, run: Run, app: App, command: list[str]) -> None:
        """
        Markup, escape sequences, line breaks and bidi marks from strangers reach no terminal, in any command.
        """
        spec = f"{app(HOSTILE)}:registry"
        for more in ([], ["--json"]):
            _, out, err = run(*command, *more, "--app", spec)
            for sign in ("\x1b", "\x9b", "\x07", "\u202e"):
                assert sign not in out + err

    def test_markup_is_printed_as_it_is(self, run: Run, app: App) -> None:
        """
        Square brackets are text, and a long description of many lines is one line in a listing.
        """
        _, out, _ = run("list", "--app", f"{app(HOSTILE)}:registry")

        assert "[red]not red[/red] \\x1b[31mred" in out
        assert len(out.splitlines()) == 2
        assert max(map(len, out.splitlines())) < 250

    def test_result_is_raw_only_in_a_pipe(self, run: Run, app: App) -> None:
        """
        In a pipe the tool's text is passed on as it is: there it is data.
        """
        assert run("call", "[red]robot", "evil", "--app", f"{app(HOSTILE)}:registry")[1] == "\x1b[2Jgone\n"

    @pytest.mark.parametrize(
        ("text", "safe"),
        [
            ("a\x1b[31mb", "a\\x1b[31mb"), ("a\nb\tc", "a b c"), ("\u202eabc", "\\u202eabc"), ("\ud800", "\\ud800"),
            ("naïve 漢字 😀", "naïve 漢字 😀"), ("\x85\x9b", "\\x9b"),
        ],
    )  # fmt: skip
    def test_shown(self, text: str, safe: str) -> None:
        """
        What could move a cursor is spelled out, and other people's letters stay.
        """
        assert safe == sanitize_text(text)


class TestArguments:
    @pytest.mark.parametrize(
        ("arguments", "text"),
        [
            ({"to": "ann", "amount": 3}, 'to="ann", amount=3'),
            ('{"to": "ann", "amount": 3}', 'to="ann", amount=3'),
            ('{"to": ', '"{\\"to\\": "'),
            ("[1]", '"[1]"'),
            ("[" * 100_000, None),
        ],
        ids=["object", "text", "no-json", "no-object", "deep"],
    )
    def test_of_refused_calls_are_shown_as_those_of_others(self, arguments: object, text: str | None) -> None:
        """Arguments that a call was given as JSON text are shown as if they were an object, if they are one."""
        assert (json.dumps(arguments) if text is None else text) == format_arguments(arguments)
