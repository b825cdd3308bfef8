"""The commands about one agent and one tool: `why` and `call`."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import Any

import click
from msgspec.structs import replace
from rich.text import Text

from praval_tools import Decision, Outcome, Tool, ToolArgumentsError, ToolCall, ToolRegistry, ToolResult
from praval_tools.cli.app_option import app_options, complete_agent, complete_tool
from praval_tools.cli.common import (
    EXIT_OK,
    EXIT_PROBLEM,
    EXIT_REFUSED,
    EXIT_USAGE,
    CommandError,
    get_journal_option,
    json_option,
    sanitize_text,
)
from praval_tools.cli.journal_option import open_selected_registry
from praval_tools.cli.output import build_grid, build_rule_cell, make_console, print_json, print_parts, to_cell
from praval_tools.schema.encode import encode, to_json_bytes
from praval_tools.schema.json_input import MalformedArgumentsError, parse_arguments
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.decision import Tried

_REFUSED_OUTCOMES = {
    Outcome.UNKNOWN_TOOL,
    Outcome.FORBIDDEN,
    Outcome.DISABLED,
    Outcome.APPROVAL_REQUIRED,
    Outcome.APPROVAL_DENIED,
    Outcome.LIMITED,
}
_REFUSING_RULES = {"unknown", "disabled", "blocked", "retired"}
_MIN_WIDE_WIDTH = 110


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


def parse_words(words: tuple[str, ...], tool: Tool[..., Any] | None) -> dict[str, Any]:
    """
    Return the arguments that *words* mean: `key=value` pairs, one JSON object, or `-` for JSON on stdin.

    The text of a pair becomes what the tool's schema wants there: `x=3` is a number for a number and text for text.

    Raises:
        Failure: The words are neither, or the JSON is broken.
    """
    if words == ("-",):
        return _parse_json_object(sys.stdin.read())
    if len(words) == 1 and words[0].lstrip()[:1] in ("{", "["):
        return _parse_json_object(words[0])
    pairs: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            text = f"{word!r} is no argument; write key=value, or one JSON object, or - for JSON on stdin."
            raise CommandError(text, EXIT_USAGE)
        if key in pairs:
            raise CommandError(f"Argument {key!r} is given twice.", EXIT_USAGE)
        pairs[key] = value
    return pairs if tool is None else _repair_arguments(pairs, tool)


def _parse_json_object(text: str) -> dict[str, Any]:
    try:
        return parse_arguments(text)
    except MalformedArgumentsError as error:
        raise CommandError(
            f"The arguments are no JSON object: {'; '.join(map(str, error.problems))}", EXIT_USAGE
        ) from error


def _repair_arguments(pairs: dict[str, Any], tool: Tool[..., Any]) -> dict[str, Any]:
    """Repair here as well as in the call, so that a tool that takes strict arguments can be called from a shell."""
    repaired, _ = tool.implementation.validator.repair(pairs)
    return repaired


# ── why ──────────────────────────────────────────────────────────────────────────────────────────


@click.command("why")
@click.argument("agent", shell_complete=complete_agent)
@click.argument("tool", shell_complete=complete_tool)
@click.argument("arguments", nargs=-1, metavar="[key=value... | JSON | -]")
@json_option
@app_options
@click.pass_context
def why_command(ctx: click.Context, *, agent: str, tool: str, arguments: tuple[str, ...], as_json: bool) -> None:
    """
    Explain why AGENT may call TOOL, or may not: every rule in order, and what would change it.

    With arguments, bounds and policies are asked too. Nothing is called or spent.
    Exits with 0 where the call is allowed, with 3 where it is refused.
    """
    registry = open_selected_registry(ctx)
    given = parse_words(arguments, registry.get_tool(tool)) if arguments else None
    decision = registry.explain(agent, tool, given)
    if decision.rule == ToolArgumentsError.code:
        raise CommandError(decision.reason, EXIT_USAGE)
    if as_json:
        print_json(decision_to_json(decision))
    else:
        console = make_console()
        print_parts(console, render_verdict(decision), "", build_rules_table(decision, console.width))
    ctx.exit(EXIT_OK if decision.allowed else EXIT_REFUSED)


def render_verdict(decision: Decision) -> Text:
    """Return the decision in one or two lines: who, what, why, and what would change it."""
    word = Text("allowed", "bold green") if decision.allowed else Text(decision.outcome, "bold red")
    text = Text.assemble(
        to_cell(decision.agent or "nobody", "bold"), " -> ", to_cell(decision.tool, "bold"), ": ", word
    )
    if decision.allowed:
        text.append_text(Text.assemble(" (", build_rule_cell(decision.rule, True), ")"))
    if decision.reason:
        text.append(f"\n{sanitize_text(decision.reason)}")
    if decision.remedy and not decision.allowed:
        text.append(f"\nTo change it: {sanitize_text(decision.remedy)}", style="dim")
    return text


def build_rules_table(decision: Decision, width: int) -> Any:
    """Return a table of every rule that was tried; what would change it stands beside, or where it is narrow below."""
    wide = width >= _MIN_WIDE_WIDTH
    rows = []
    for number, one in enumerate(decision.tried, start=1):
        because, change = to_cell(one.why, "" if one.holds else "dim"), to_cell(_get_useful_change(one), "dim")
        if not wide and change.plain:
            because = Text.assemble(because, "\n", ("-> ", "dim"), change)
        rule = Text(one.rule, style="bold" if one.rule == decision.rule else "")
        holds = Text("yes" if one.holds else "no", style="" if one.holds else "dim")
        rows.append([Text(str(number), style="dim"), rule, holds, because, *([change] if wide else [])])
    titles = ["", "rule", "holds", "because", *(["would change with"] if wide else [])]
    return build_grid(titles, rows, unwrapped_columns=(0, 1, 2))


def _get_useful_change(tried: Tried) -> str:
    """Return what would change the answer of a rule: lift a refusal that holds, or give a permission that does not."""
    return tried.change if tried.holds == (tried.rule in _REFUSING_RULES) else ""


def decision_to_json(decision: Decision) -> dict[str, Any]:
    """Return the decision as JSON values."""
    return {
        "agent": decision.agent,
        "tool": decision.tool,
        "allowed": decision.allowed,
        "outcome": decision.outcome,
        "rule": decision.rule,
        "reason": decision.reason,
        "remedy": decision.remedy,
        "tried": [
            {"rule": one.rule, "holds": one.holds, "why": one.why, "change": one.change} for one in decision.tried
        ],
    }


# ── call ─────────────────────────────────────────────────────────────────────────────────────────


@click.command("call")
@click.argument("agent", shell_complete=complete_agent)
@click.argument("tool", shell_complete=complete_tool)
@click.argument("arguments", nargs=-1, metavar="[key=value... | JSON | -]")
@json_option
@app_options
@click.pass_context
def call_command(ctx: click.Context, *, agent: str, tool: str, arguments: tuple[str, ...], as_json: bool) -> None:
    """
    Call TOOL as AGENT, with every check, and print its result as JSON (a text as it is).

    Exits with 0, with 1 where the tool failed, with 2 where the arguments do not fit, with 3 where it is refused.
    """
    registry = open_selected_registry(ctx, create_journal=get_journal_option(ctx) is not None)
    given = parse_words(arguments, registry.get_tool(tool))
    result = _ensure_encodable(_execute_call(registry, ToolCall(name=tool, arguments=given, agent=agent)))
    if as_json:
        print_json(_result_to_json(result))
    elif result.success:
        print_value(result.result)
    else:
        _print_failure(result)
    ctx.exit(_get_exit_code(result))


def _execute_call(registry: ToolRegistry, call: ToolCall) -> ToolResult:
    """Run the call; what the tool itself prints goes to stderr, so that stdout is the result alone."""
    with registry, redirect_stdout(sys.stderr):
        return registry.execute(call)


def _ensure_encodable(result: ToolResult) -> ToolResult:
    """Return the result, with a value that has no JSON form as the error that it is."""
    try:
        to_json_bytes(encode(result.result))
    except (Unencodable, ValueError) as error:
        said = f"the tool ran, and its value cannot be written as JSON: {error}"
        return replace(result, outcome=Outcome.TOOL_ERROR, result=None, error=said, error_type="Unencodable")
    return result


def print_value(value: Any) -> None:
    """Print a result: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        safe = value if not sys.stdout.isatty() else sanitize_text(value, keep_line_breaks=True)
        sys.stdout.write(safe.encode("utf-8", "replace").decode() + "\n")
    else:
        sys.stdout.write(json.dumps(encode(value), indent=2, ensure_ascii=True) + "\n")


def _print_failure(result: ToolResult) -> None:
    """Say what went wrong; a refusal in the words for the operator, which name owner and remedy."""
    kind = f" ({result.error_type})" if result.outcome is Outcome.TOOL_ERROR and result.error_type else ""
    said, remedy = result.error or "", ""
    if (
        result.outcome in _REFUSED_OUTCOMES
        and result.outcome is not Outcome.UNKNOWN_TOOL
        and result.decision is not None
    ):
        if not result.decision.allowed:
            said = result.decision.reason or said
        remedy = result.decision.remedy
    console = make_console(stderr=True)
    console.print(
        Text.assemble((f"{result.outcome.value}{kind}: ", "bold red"), sanitize_text(said, keep_line_breaks=True))
    )
    if remedy:
        console.print(Text(f"To change it: {sanitize_text(remedy)}", style="dim"))


def _get_exit_code(result: ToolResult) -> int:
    if result.success:
        return EXIT_OK
    if result.outcome in _REFUSED_OUTCOMES:
        return EXIT_REFUSED
    return EXIT_USAGE if result.outcome is Outcome.INVALID_ARGUMENTS else EXIT_PROBLEM


def _result_to_json(result: ToolResult) -> dict[str, Any]:
    return {
        "tool": result.name,
        "agent": result.agent,
        "outcome": result.outcome.value,
        "result": encode(result.result) if result.success else None,
        "error": result.error,
        "error_type": result.error_type,
        "latency_ms": result.latency_ms,
        "repairs": [{"path": one.path, "given": one.given, "became": one.became} for one in result.repairs],
        "rule": result.decision.rule if result.decision is not None else None,
    }
