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
from praval_tools.cli.common import OK, PROBLEM, REFUSED, USAGE, Failure, chosen_journal, json_option, shown
from praval_tools.cli.journal_option import registry_of
from praval_tools.cli.output import cell, grid, print_all, print_json, rule_cell, screen
from praval_tools.schema.arguments import BadArguments, parse
from praval_tools.schema.encode import encode, json_text
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.decision import Tried

_REFUSALS = {
    Outcome.UNKNOWN_TOOL,
    Outcome.FORBIDDEN,
    Outcome.DISABLED,
    Outcome.APPROVAL_REQUIRED,
    Outcome.APPROVAL_DENIED,
    Outcome.LIMITED,
}
_REFUSING = {"unknown", "disabled", "blocked", "retired"}
_WIDE = 110


# ── arguments ────────────────────────────────────────────────────────────────────────────────────


def arguments_from(words: tuple[str, ...], tool: Tool[..., Any] | None) -> dict[str, Any]:
    """
    Return the arguments that *words* mean: `key=value` pairs, one JSON object, or `-` for JSON on stdin.

    The text of a pair becomes what the tool's schema wants there: `x=3` is a number for a number and text for text.

    Raises:
        Failure: The words are neither, or the JSON is broken.
    """
    if words == ("-",):
        return _parsed(sys.stdin.read())
    if len(words) == 1 and words[0].lstrip()[:1] in ("{", "["):
        return _parsed(words[0])
    pairs: dict[str, Any] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            text = f"{word!r} is no argument; write key=value, or one JSON object, or - for JSON on stdin."
            raise Failure(text, USAGE)
        if key in pairs:
            raise Failure(f"Argument {key!r} is given twice.", USAGE)
        pairs[key] = value
    return pairs if tool is None else _repaired(pairs, tool)


def _parsed(text: str) -> dict[str, Any]:
    try:
        return parse(text)
    except BadArguments as error:
        raise Failure(f"The arguments are no JSON object: {'; '.join(map(str, error.problems))}", USAGE) from error


def _repaired(pairs: dict[str, Any], tool: Tool[..., Any]) -> dict[str, Any]:
    """Repair here as well as in the call, so that a tool that takes strict arguments can be called from a shell."""
    repaired, _ = tool.definition_.validator.repair(pairs)
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
    registry = registry_of(ctx)
    given = arguments_from(arguments, registry.get_tool(tool)) if arguments else None
    decision = registry.explain(agent, tool, given)
    if decision.rule == ToolArgumentsError.code:
        raise Failure(decision.reason, USAGE)
    if as_json:
        print_json(decision_json(decision))
    else:
        console = screen()
        print_all(console, verdict(decision), "", rules(decision, console.width))
    ctx.exit(OK if decision.allowed else REFUSED)


def verdict(decision: Decision) -> Text:
    """Return the decision in one or two lines: who, what, why, and what would change it."""
    word = Text("allowed", "bold green") if decision.allowed else Text(decision.outcome, "bold red")
    text = Text.assemble(cell(decision.agent or "nobody", "bold"), " -> ", cell(decision.tool, "bold"), ": ", word)
    if decision.allowed:
        text.append_text(Text.assemble(" (", rule_cell(decision.rule, True), ")"))
    if decision.reason:
        text.append(f"\n{shown(decision.reason)}")
    if decision.remedy and not decision.allowed:
        text.append(f"\nTo change it: {shown(decision.remedy)}", style="dim")
    return text


def rules(decision: Decision, width: int) -> Any:
    """Return a table of every rule that was tried; what would change it stands beside, or where it is narrow below."""
    wide = width >= _WIDE
    rows = []
    for number, one in enumerate(decision.tried, start=1):
        because, change = cell(one.why, "" if one.holds else "dim"), cell(_change(one), "dim")
        if not wide and change.plain:
            because = Text.assemble(because, "\n", ("-> ", "dim"), change)
        rule = Text(one.rule, style="bold" if one.rule == decision.rule else "")
        holds = Text("yes" if one.holds else "no", style="" if one.holds else "dim")
        rows.append([Text(str(number), style="dim"), rule, holds, because, *([change] if wide else [])])
    titles = ["", "rule", "holds", "because", *(["would change with"] if wide else [])]
    return grid(titles, rows, keep=(0, 1, 2))


def _change(tried: Tried) -> str:
    """Return what would change the answer of a rule: lift a refusal that holds, or give a permission that does not."""
    return tried.change if tried.holds == (tried.rule in _REFUSING) else ""


def decision_json(decision: Decision) -> dict[str, Any]:
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
    registry = registry_of(ctx, make=chosen_journal(ctx) is not None)
    given = arguments_from(arguments, registry.get_tool(tool))
    result = _encodable(_executed(registry, ToolCall(name=tool, arguments=given, agent=agent)))
    if as_json:
        print_json(_result_json(result))
    elif result.success:
        print_value(result.result)
    else:
        _print_failure(result)
    ctx.exit(_exit_code(result))


def _executed(registry: ToolRegistry, call: ToolCall) -> ToolResult:
    """Run the call; what the tool itself prints goes to stderr, so that stdout is the result alone."""
    with registry, redirect_stdout(sys.stderr):
        return registry.execute(call)


def _encodable(result: ToolResult) -> ToolResult:
    """Return the result, with a value that has no JSON form as the error that it is."""
    try:
        json_text(encode(result.result))
    except (Unencodable, ValueError) as error:
        said = f"the tool ran, and its value cannot be written as JSON: {error}"
        return replace(result, outcome=Outcome.TOOL_ERROR, result=None, error=said, error_type="Unencodable")
    return result


def print_value(value: Any) -> None:
    """Print a result: a text as it is, anything else as JSON."""
    if isinstance(value, str):
        safe = value if not sys.stdout.isatty() else shown(value, lines=True)
        sys.stdout.write(safe.encode("utf-8", "replace").decode() + "\n")
    else:
        sys.stdout.write(json.dumps(encode(value), indent=2, ensure_ascii=True) + "\n")


def _print_failure(result: ToolResult) -> None:
    """Say what went wrong; a refusal in the words for the operator, which name owner and remedy."""
    kind = f" ({result.error_type})" if result.outcome is Outcome.TOOL_ERROR and result.error_type else ""
    said, remedy = result.error or "", ""
    if result.outcome in _REFUSALS and result.outcome is not Outcome.UNKNOWN_TOOL and result.decision is not None:
        if not result.decision.allowed:
            said = result.decision.reason or said
        remedy = result.decision.remedy
    console = screen(stderr=True)
    console.print(Text.assemble((f"{result.outcome.value}{kind}: ", "bold red"), shown(said, lines=True)))
    if remedy:
        console.print(Text(f"To change it: {shown(remedy)}", style="dim"))


def _exit_code(result: ToolResult) -> int:
    if result.success:
        return OK
    if result.outcome in _REFUSALS:
        return REFUSED
    return USAGE if result.outcome is Outcome.INVALID_ARGUMENTS else PROBLEM


def _result_json(result: ToolResult) -> dict[str, Any]:
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
