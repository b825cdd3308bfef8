"""The commands `why`, which explains whether an agent may call a tool, and `call`, which makes the call."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack, redirect_stdout

import click
from rich.table import Table
from rich.text import Text

from praval_tools import Decision, Outcome, ToolArgumentsError, ToolCall, ToolRegistry, ToolResult
from praval_tools.cli.app_option import app_options, complete_agent, complete_tool, note_missing_app
from praval_tools.cli.common import (
    EXIT_NOT_WRITTEN,
    EXIT_OK,
    EXIT_PROBLEM,
    EXIT_REFUSED,
    EXIT_USAGE,
    CommandError,
    F,
    JsonObject,
    UsageError,
    find_command_line,
    json_option,
    sanitize_text,
)
from praval_tools.cli.journal_option import names_journal, open_selected_registry
from praval_tools.cli.listings import warn_if_undeclared
from praval_tools.cli.output import (
    build_grid,
    build_rule_cell,
    build_tried_cells,
    make_console,
    print_json,
    print_message,
    print_parts,
    report_effect,
    to_cell,
    unwrap,
)
from praval_tools.cli.repeated_call import (
    find_waiting_request,
    id_option,
    list_next_commands,
    read_stored_arguments,
    require_approval_of,
)
from praval_tools.errors import UnknownToolError
from praval_tools.names import find_similar_names, to_plain_text
from praval_tools.plugins.click_contexts import pass_context
from praval_tools.report.command_line import CommandLine
from praval_tools.schema.json_input import MAX_BYTES, MalformedArgumentsError, parse_arguments
from praval_tools.tools.call import encode_value
from praval_tools.tools.tool import AnyTool

_REFUSED_OUTCOMES = {
    Outcome.FORBIDDEN,
    Outcome.DISABLED,
    Outcome.APPROVAL_REQUIRED,
    Outcome.APPROVAL_DENIED,
    Outcome.LIMITED,
}
_USAGE_OUTCOMES = {Outcome.UNKNOWN_TOOL, Outcome.INVALID_ARGUMENTS}
_MIN_WIDE_WIDTH = 110
_MAX_RESULT_LENGTH = 2_000


def call_arguments(command: F) -> F:
    """Add what `why` and `call` take: the agent, the tool and the arguments of the call."""
    words = click.argument("words", nargs=-1, metavar="[key=value... | JSON | -]")
    tool = click.argument("tool", shell_complete=complete_tool)
    return click.argument("agent", shell_complete=complete_agent)(tool(words(json_option(app_options(command)))))


def parse_words(words: tuple[str, ...], tool: AnyTool | None) -> JsonObject:
    """
    Return the arguments that *words* mean: `key=value` pairs, one JSON object, or `-` for JSON on stdin.

    The text of a pair becomes what the tool's schema wants: `x=3` is a number for a number and text for text.

    Raises:
        UsageError: The words are neither, or the JSON is malformed.
    """
    if words == ("-",):
        return _parse_json_object(_read_stdin())
    if len(words) == 1 and words[0].lstrip()[:1] in ("{", "["):
        return _parse_json_object(words[0])
    pairs: JsonObject = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            text = f"{word!r} is not a valid argument; write key=value, or one JSON object, or - for JSON on stdin."
            raise UsageError(text)
        if key in pairs:
            raise UsageError(f"Argument {key!r} is given twice.")
        pairs[key] = value
    if tool is None:
        return pairs
    repaired, _ = tool.implementation.validator.repair(pairs)  # here too, so that a shell can call a strict tool
    return repaired


def _read_stdin() -> str | bytes:
    """Return what is on stdin, at most one byte more than arguments may have: a stream need not end."""
    content: str | bytes = getattr(sys.stdin, "buffer", sys.stdin).read(MAX_BYTES + 1)
    return content


def _parse_json_object(text: str | bytes) -> JsonObject:
    try:
        return parse_arguments(text)
    except MalformedArgumentsError as error:
        raise UsageError(f"The arguments are not a JSON object: {'; '.join(map(str, error.problems))}") from error


# ── why ──────────────────────────────────────────────────────────────────────────────────────────


@click.command("why")
@call_arguments
@pass_context
def why_command(ctx: click.Context, *, agent: str, tool: str, words: tuple[str, ...], as_json: bool) -> None:
    """
    Explain why AGENT may call TOOL, or may not: every rule in order, and what would change the answer.

    With arguments, bounds and policies are checked too. Nothing is called, and no grant is used up.
    Exits with 0 where the call is allowed, with 2 where there is no such tool, with 3 where it is refused.
    """
    registry = open_selected_registry(ctx)
    warn_if_undeclared(registry, agent)
    if tool not in registry.state.tools or agent not in registry.agents:
        note_missing_app(ctx)
    decision = registry.explain(agent, tool, parse_words(words, registry.get_tool(tool)) if words else None)
    if decision.rule == ToolArgumentsError.code:
        raise UsageError(decision.reason)
    command_line = find_command_line(ctx)
    if as_json:
        print_json(_decision_to_json(decision, command_line))
    else:
        console = make_console()
        table = _build_rules_table(decision, command_line, console.width)
        print_parts(console, _render_verdict(decision, command_line), "", table)
    if decision.rule == "unknown":
        ctx.exit(EXIT_USAGE)
    ctx.exit(EXIT_OK if decision.allowed else EXIT_REFUSED)


def _render_verdict(decision: Decision, command_line: CommandLine) -> Text:
    """Return the decision in one or two lines: who, what, why, and what would change it."""
    verdict = Text("allowed", "bold green") if decision.allowed else Text(decision.outcome, "bold red")
    agent, tool = to_cell(decision.agent or "nobody", "bold"), to_cell(decision.tool, "bold")
    text = Text.assemble(agent, " -> ", tool, ": ", verdict)
    if decision.allowed:
        text.append_text(Text.assemble(" (", build_rule_cell(decision.rule, True), ")"))
    if decision.reason:
        text.append(f"\n{sanitize_text(decision.reason)}")
    if remedy := command_line.format_remedy(decision):
        text.append(f"\nTo change it: {sanitize_text(remedy)}", style="dim")
    return unwrap(text)


def _build_rules_table(decision: Decision, command_line: CommandLine, width: int) -> Table:
    """Return every rule that was tried; what would change its answer is a column, or a line where there is no room."""
    is_wide = width >= _MIN_WIDE_WIDTH
    rows = []
    for number, tried in enumerate(decision.tried, start=1):
        rule, holds, because = build_tried_cells(tried, decision)
        change = to_cell(command_line.get_useful_change(tried), "dim")
        if not is_wide and change.plain:
            because = Text.assemble(because, "\n", ("-> ", "dim"), change)
        rows.append((Text(str(number), style="dim"), rule, holds, because, change)[: 5 if is_wide else 4])
    titles = ("", "rule", "holds", "because", "would change with")[: 5 if is_wide else 4]
    return build_grid(titles, rows, unwrapped_columns=(0, 1, 2))


def _decision_to_json(decision: Decision, command_line: CommandLine) -> JsonObject:
    names = ("agent", "tool", "allowed", "outcome", "rule", "reason")
    tried = [
        {"rule": rule.rule, "holds": rule.holds, "why": rule.why, "change": command_line.rewrite(rule.change)}
        for rule in decision.tried
    ]
    texts = {"remedy": command_line.format_remedy(decision), "tried": tried}
    return {name: getattr(decision, name) for name in names} | texts


# ── call ─────────────────────────────────────────────────────────────────────────────────────────


@click.command("call")
@id_option
@call_arguments
@pass_context
def call_command(
    ctx: click.Context, *, agent: str, tool: str, words: tuple[str, ...], call_id: str | None, as_json: bool
) -> None:
    """
    Call TOOL as AGENT, with every check, and print its result as JSON (a text as it is).

    A call that needs an approval waits in the journal; what is printed says how it is approved and made again.

    Exits with 0, with 1 where the tool failed, with 2 where there is no such tool or the
    arguments do not fit, with 3 where it is refused.
    """
    registry = open_selected_registry(ctx, is_change=True, create_journal=names_journal(ctx))
    warn_if_undeclared(registry, agent)
    arguments = parse_words(words, registry.get_tool(tool))
    with ExitStack() as context:
        context.enter_context(registry)
        if call_id is not None:
            request = find_waiting_request(registry, agent, tool, call_id)
            arguments = arguments if words else read_stored_arguments(registry, request)
            context.enter_context(require_approval_of(registry, request))
        context.enter_context(redirect_stdout(sys.stderr))  # what the tool itself prints must not mix with the result
        result = registry.execute(ToolCall(call_id, tool, arguments, agent))
        commands = list_next_commands(ctx, registry, result, words)
    effect = f"{tool} was called as {agent} and ended with {result.outcome.value}."
    try:
        content = encode_value(result) if result.success else None
        text = json.dumps(content, indent=2)
    except (Exception, SystemExit) as error:  # also what the value's own code raises; the call ended all the same
        text = to_plain_text(error)
        raise CommandError(f"{effect} What it returned has no JSON form: {text}", EXIT_NOT_WRITTEN) from error
    if result.success:
        effect += f" It returned {sanitize_text(text, max_length=_MAX_RESULT_LENGTH)}."
    with report_effect(effect, _get_exit_code(result)):
        if as_json:
            print_json(_result_to_json(result, content) | {"commands": [command for _, command in commands if command]})
        elif result.success:
            _print_value(content, text)
        else:
            _print_failure(result, registry, find_command_line(ctx))
            for purpose, command in commands:
                text = f"{purpose}: {command}" if command else f"{purpose}."
                print_message(unwrap(to_cell(text, "dim")))
    ctx.exit(_get_exit_code(result))


def _print_value(content: object, text: str) -> None:
    if isinstance(content, str):
        text = sanitize_text(content, keep_line_breaks=True) if sys.stdout.isatty() else content
    sys.stdout.write(f"{text}\n")


def _print_failure(result: ToolResult, registry: ToolRegistry, command_line: CommandLine) -> None:
    """Print what went wrong; of a refusal also what no model reads: owner, remedy, names of other agents' tools."""
    kind = f" ({result.error_type})" if result.outcome is Outcome.TOOL_ERROR and result.error_type else ""
    text, remedy = result.error or "", ""
    decision = result.decision
    if decision is not None and decision.rule == "unknown":
        text = str(UnknownToolError(result.name, find_similar_names(result.name, registry.state.tools)))
    if result.outcome in _REFUSED_OUTCOMES and decision is not None:
        text = text if decision.allowed else decision.reason or text
        remedy = command_line.format_remedy(decision)
    label = (f"{result.outcome.value}{kind}: ", "bold red")
    print_message(Text.assemble(label, sanitize_text(text, keep_line_breaks=True)))
    if remedy:
        print_message(unwrap(to_cell(f"To change it: {remedy}", "dim")))


def _get_exit_code(result: ToolResult) -> int:
    if result.success:
        return EXIT_OK
    if result.outcome in _REFUSED_OUTCOMES:
        return EXIT_REFUSED
    return EXIT_USAGE if result.outcome in _USAGE_OUTCOMES else EXIT_PROBLEM


def _result_to_json(result: ToolResult, content: object) -> JsonObject:
    return {
        "tool": result.name,
        "agent": result.agent,
        "tool_call_id": result.tool_call_id,
        "approval_id": result.approval_id,
        "outcome": result.outcome.value,
        "result": content,
        "error": result.error,
        "error_type": result.error_type,
        "latency_ms": result.latency_ms,
        "repairs": [{name: getattr(repair, name) for name in ("path", "given", "became")} for repair in result.repairs],
        "rule": result.decision.rule if result.decision is not None else None,
    }
