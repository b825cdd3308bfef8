"""`CommandLine`: writes commands for a reader to copy, and rewrites messages that name methods of a registry."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence
from typing import Final

from attrs import frozen

from praval_tools.access.records import Block
from praval_tools.tools.decision import Decision, Tried

_COMMANDS = {
    "assign_tool_to_agent": "assign",
    "grant": "assign",
    "remove_tool_from_agent": "unassign",
    "unblock": "unblock",
    "enable": "enable",
    "share_tool": "share",
    "unshare_tool": "unshare",
    "transfer_ownership": "transfer",
    "revoke": "revoke",
    "explain": "why",
    "grants": "grants",
    "problems": "check",
}
"""Method of a registry → the command that does the same."""
_GRANT_FILTERS: Final = {"agent", "tool"}

_REFUSING_RULES = {"unknown", "disabled", "blocked", "retired"}
PROGRAM: Final = "praval-tools"
_METHOD_CALL = re.compile(rf"(?:\b[\w.]+\.)?\b({'|'.join(_COMMANDS)})\(([^()]*)\)")
_NAMED_COMMANDS: Final = ("approvals", "audit", "check", "grants", "plugins", "runs")
_NAMED_COMMAND = re.compile(rf"(?<![\w./-]){PROGRAM} (?=(?:{'|'.join(_NAMED_COMMANDS)})\b)")
"""The beginning of a command in a message of a place that does not know how the command line was started."""


@frozen
class CommandLine:
    """
    How a command begins that a reader of this command line can copy.

    Args:
        options: Those that say which registry and journal are meant.
        program: The words that start the command line.
    """

    options: Sequence[str] = ()
    program: Sequence[str] = (PROGRAM,)

    @property
    def start(self) -> str:
        """The words before the name of a command."""
        return shlex.join([*self.program, *self.options])

    def write(self, command: str, names: Sequence[str] = (), options: Sequence[str] = ()) -> str:
        """Return *command*, one word or two, for a shell; names that look like options stand after `--`."""
        is_option_like = any(name.startswith("-") for name in names)
        words = [*options, "--", *names] if is_option_like else [*names, *options]
        return f"{self.start} {shlex.join([*command.split(), *words])}"

    def rewrite(self, text: str) -> str:
        """Return *text* with each call of a registry's method, and each command, as one that can be copied."""
        text = _NAMED_COMMAND.sub(lambda match: f"{self.start} ", text)
        return _METHOD_CALL.sub(self._write_method_call, text)

    def _write_method_call(self, match: re.Match[str]) -> str:
        try:
            call = ast.parse(f"call({match[2].replace('…', '...')})", mode="eval").body
        except SyntaxError:
            return match[0]
        assert isinstance(call, ast.Call)
        keywords = {keyword.arg: _read_word(keyword.value) for keyword in call.keywords}
        if match[1] == "grants":  # its filters are options of the command, which has no others
            if not keywords.keys() <= _GRANT_FILTERS:
                return match[0]
            return self.write("grants", [], [word for key, value in keywords.items() for word in (f"--{key}", value)])
        options = ["--where", "{…}"] if keywords.pop("where", None) else []
        names = [*map(_read_word, call.args), *keywords.values()]
        for keyword in call.keywords:
            if match[1] == "enable" and keyword.arg not in (None, "tool"):
                options += ["--kind", str(keyword.arg)]
        return self.write(_COMMANDS[match[1]], names, options)

    def format_remedy(self, decision: Decision) -> str:
        """Return what would change a refusal, with the command that does it; an empty text where nothing would."""
        remedy, source = decision.remedy.rstrip("."), decision.source
        if decision.allowed or not remedy:
            return ""
        if isinstance(source, Block):
            return f"{remedy}: {self.write('unblock', [source.tool, source.agent])}."
        if decision.rule == "disabled" and (kind := getattr(source, "kind", None)) is not None:
            options = [] if kind == "tool" else ["--kind", kind]
            return f"{remedy}: {self.write('enable', [getattr(source, 'name', '')], options)}."
        return self.rewrite(decision.remedy)

    def get_useful_change(self, tried: Tried) -> str:
        """Return what would change a rule's answer where that helps: a refusal that holds, a missing permission."""
        return self.rewrite(tried.change) if tried.holds == (tried.rule in _REFUSING_RULES) else ""


def _read_word(node: ast.expr) -> str:
    if isinstance(node, ast.Name):  # a placeholder
        return node.id.upper()
    if isinstance(node, ast.Constant):
        return "AGENT" if node.value is ... else str(node.value)
    return ast.unparse(node)
