"""Commands that are printed for the reader to copy are about the registry and the journal that the reader has named."""

# Tests of: common, report/command_line

from __future__ import annotations

import ast
import re
import shlex
from html import unescape
from pathlib import Path

import pytest
from cli_journal_rig import run_app
from cli_rig import App, Run, app, run  # noqa: F401
from operator_page_rig import serve_page
from source_tree import read_tree

import praval_tools
from praval_tools import Agent, ToolCall, ToolRegistry
from praval_tools.cli.entry import COMMANDS
from praval_tools.errors import UnknownGrantError
from praval_tools.report.command_line import CommandLine

SOURCE = '''
from praval_tools import Agent, ToolRegistry

registry = ToolRegistry()

@registry.tool(owned_by="bank")
def pay(to: str) -> str:
    """Pay."""
    return to

@registry.tool(owned_by="bank")
def odd(x: "Nowhere") -> int:
    """Odd."""
    return 1

Agent("clerk", registry=registry)
'''
_NAMED = re.compile(r"(?<![\w./-])praval-tools (\w+)")


def _list_beginnings(text: str) -> set[str]:
    """Return how each command in *text* begins, up to its name."""
    words = " ".join(text.split())
    return set(re.findall(rf"praval-tools (?:.{{0,120}}? )?(?:{'|'.join(COMMANDS)})\b", words))


def _list_messages(tree: ast.AST) -> list[str]:
    """Return the texts of a module without docstrings and names of threads."""
    others = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    others |= {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "name"}
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in others]
    return [node.value for node in texts if isinstance(node.value, str)]


class TestOptions:
    @pytest.mark.parametrize(
        ("words", "name"),
        [
            ("why clerk pay", "assign"),
            ("why clerk pay --json", "assign"),
            ("why clerk odd", "check"),
            ("call clerk pay to=ann", "assign"),
            ("advise --tool pay", "assign"),
            ("advise --tool pay --json", "assign"),
            ("assign pay blocked", "unblock"),
            ("runs show none", "runs"),
            ("revoke none", "grants"),
            ("approvals approve none", "approvals"),
            ("tokens list", "tokens"),
            ("docs build --check --out pages", "docs"),
        ],
    )
    def test_are_those_of_this_command(self, run: Run, app: App, words: str, name: str) -> None:
        """Broken promise: a command that was printed acted on another registry, or found none."""
        Path("other.toml").write_text("")
        options = ("--app", f"{app(SOURCE)}:registry", "--config", "other.toml", "--journal", "my work.db")
        run("block", "pay", "blocked", *options)
        for _ in range(3):
            run("call", "clerk", "pay", "to=ann", *options)

        _, out, err = run(*words.split(), *options)

        found, expected = _list_beginnings(out + err), f"praval-tools {shlex.join(options)}"
        assert f"{expected} {name}" in found
        assert {expected} == {beginning.rpartition(" ")[0] for beginning in found}

    def test_of_a_call_in_doubt(self, run: Run, app: App) -> None:
        """The command that settles it names its journal; broken promise: it settled a call of another one, or none."""
        run_app(app, "half", crash="last")
        out = run("runs", "show", "half", "--journal", "work.db")[1]
        assert {"praval-tools --journal work.db runs"} == _list_beginnings(out)

    def test_of_a_name_like_an_option(self) -> None:
        """The options stand before the command, so that they count also where it ends options with `--`."""
        command_line = CommandLine(["--app", "shop"])
        assert "praval-tools --app shop unblock -- pay -x" == command_line.write("unblock", ["pay", "-x"])

    def test_show_no_password(self, run: Run, app: App) -> None:
        """Of a database its name; broken promise: a command was printed with the password of a URL."""
        url = "postgresql://ann:hunter2-hunter2@127.0.0.1:1/runs"
        _, out, err = run("revoke", "none", "--app", f"{app(SOURCE)}:registry", "--journal", url)
        assert "hunter2" not in out + err

    def test_are_those_of_the_page(self, tmp_path: Path) -> None:
        """Broken promise: the commands of the operator's page named neither its app nor its journal."""
        with ToolRegistry(journal=tmp_path / "runs.db") as registry:
            registry.tool("pay", owned_by="bank", description="Pay.")(lambda: 1)
            Agent("clerk", registry=registry)
            for _ in range(3):
                registry.execute(ToolCall(None, "pay", {}, "clerk"))
            command_line = CommandLine(["--app", "bank:registry"])
            with serve_page(registry, command_line=command_line) as server, server.log_in() as client:
                for address in ("/matrix/cell?agent=clerk&tool=pay", "/advice?days=7"):
                    text = unescape(re.sub("<[^>]*>", "", client.get(address).text))
                    assert "praval-tools --app bank:registry assign pay clerk" in text


class TestMessages:
    def test_name_no_other_commands(self) -> None:
        """Every command that a message of the library names is completed where it is printed, or names its place."""
        folder = Path(praval_tools.__file__).parent
        texts = [
            text
            for path in sorted(folder.rglob("*.py"))
            if path.relative_to(folder).parts[0] not in ("cli", "web", "demo")
            for text in _list_messages(read_tree(path))
            if set(_NAMED.findall(text)) & set(COMMANDS) and "--app" not in text and "--journal" not in text
        ]
        assert {"audit", "runs"} == {name for text in texts for name in _NAMED.findall(text)} & set(COMMANDS)
        command_line = CommandLine(["--app", "shop"])
        assert [] == [text for text in texts if "praval-tools --app shop " not in command_line.rewrite(text)]

    @pytest.mark.parametrize(
        ("text", "command"),
        [
            ("registry.grants(agent='a b') lists them.", "grants --agent 'a b' lists them."),
            ("grants(tool='pay', agent='ann') lists them.", "grants --tool pay --agent ann lists them."),
            ("registry.problems() says what that is.", "check says what that is."),
        ],
    )
    def test_name_the_command_of_a_method(self, text: str, command: str) -> None:
        """What a message of the library says as a call in Python is printed as the command that does it."""
        assert f"praval-tools --app shop {command}" == CommandLine(["--app", "shop"]).rewrite(text)

    def test_name_no_option_that_a_command_lacks(self) -> None:
        """Where a command cannot do what a call in Python does, the call is printed."""
        text = str(UnknownGrantError("none"))
        assert "registry.grants(ended=True)" in text
        assert text == CommandLine(["--app", "shop"]).rewrite(text)

    def test_are_not_completed_twice(self) -> None:
        """What is printed through two places has its options once, and prose stays as it is."""
        command_line = CommandLine(["--app", "shop"])
        assert "praval-tools --app shop check" == command_line.rewrite(command_line.rewrite("praval-tools check"))
        assert "this praval-tools checks" == command_line.rewrite("this praval-tools checks")
