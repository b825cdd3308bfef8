"""Rewrites the remedies in messages, which name methods of a registry, as commands of the command line."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Sequence

from praval_tools.access.records import Block
from praval_tools.tools.decision import Decision, Tried

_COMMANDS = {
    "assign_tool_to_agent": "assign",
    "grant": "assign",
    "remove_tool_from_agent": "unassign",
    "unblock": "unblock",
    "enable": "enable",
    "share_tool": "share",
    "transfer_ownership": "transfer",
    "revoke": "revoke",
    "explain": "why",
}
"""Method of a registry → the command that does the same."""

_REFUSING_RULES = {"unknown", "disabled", "blocked", "retired"}
_METHOD_CALL = re.compile(rf"(?:\b[\w.]+\.)?\b({'|'.join(_COMMANDS)})\(([^()]*)\)")


def write_as_commands(text: str) -> str:
    """Return *text* with each call of a registry's method written as a command; what is none stays as it is."""
    return _METHOD_CALL.sub(_write_as_command, text)


def _write_as_command(match: re.Match[str]) -> str:
    try:
        call = ast.parse(f"call({match[2].replace('…', '...')})", mode="eval").body
    except SyntaxError:
        return match[0]
    assert isinstance(call, ast.Call)
    names = [_read_word(node) for node in (*call.args, *(keyword.value for keyword in call.keywords))]
    options = []
    for keyword in call.keywords:
        if match[1] == "enable" and keyword.arg not in (None, "tool"):
            options += ["--kind", str(keyword.arg)]
    return write_command(_COMMANDS[match[1]], names, options)


def _read_word(node: ast.expr) -> str:
    if isinstance(node, ast.Name):  # a placeholder
        return node.id.upper()
    if isinstance(node, ast.Constant):
        return "AGENT" if node.value is ... else str(node.value)
    return ast.unparse(node)


def write_command(command: str, names: Sequence[str], options: Sequence[str] = ()) -> str:
    """Return a command for a shell; names that look like options stand after `--`."""
    is_option_like = any(name.startswith("-") for name in names)
    words = [*options, "--", *names] if is_option_like else [*names, *options]
    return shlex.join(["praval-tools", command, *words])


def format_remedy(decision: Decision) -> str:
    """Return what would change a refusal, with the command that does it; an empty text where nothing would."""
    remedy, source = decision.remedy.rstrip("."), decision.source
    if decision.allowed or not remedy:
        return ""
    if isinstance(source, Block):
        return f"{remedy}: {write_command('unblock', [source.tool, source.agent])}."
    if decision.rule == "disabled" and (kind := getattr(source, "kind", None)) is not None:
        options = [] if kind == "tool" else ["--kind", kind]
        return f"{remedy}: {write_command('enable', [getattr(source, 'name', '')], options)}."
    return write_as_commands(decision.remedy)


def get_useful_change(tried: Tried) -> str:
    """Return what would change a rule's answer where that helps: a refusal that holds, a permission that does not."""
    return write_as_commands(tried.change) if tried.holds == (tried.rule in _REFUSING_RULES) else ""
