"""The command `approvals`, with `list`, `approve` and `deny`: calls that wait for a person, and the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import click

from praval_tools.cli.app_option import report_options
from praval_tools.cli.common import CommandError, CommandGroup, JsonObject, UsageError
from praval_tools.cli.journal_option import open_selected_journal
from praval_tools.cli.output import build_grid, print_json, print_message, print_result, report_effect, to_cell
from praval_tools.cli.times import format_time
from praval_tools.clock import SystemClock
from praval_tools.errors import ToolUsageError
from praval_tools.execution.approvals import find_entry
from praval_tools.journal.redaction.marker_key import load_store_key
from praval_tools.journal.redaction.redactor import Redactor
from praval_tools.journal.stored_approvals import StoredApprovals
from praval_tools.names import OPERATOR
from praval_tools.schema.json_input import parse_typed_json, preview_json
from praval_tools.tools.decision import Allow, ApprovalAnswer, ApprovalEntry, ApprovalRequest, Deny

_by_option = click.option("--by", metavar="NAME", default=OPERATOR, show_default=True, help="Who answers; recorded.")
_reason_option = click.option("--reason", metavar="TEXT", default="", help="Why; recorded with the answer.")


@click.group("approvals", cls=CommandGroup, invoke_without_command=True)
@report_options
def approvals_command(ctx: click.Context, as_json: bool) -> None:
    """List the calls that wait for a person, the oldest first; approve or deny one."""
    if ctx.invoked_subcommand is None:
        _print_waiting(ctx, as_json=as_json)


@approvals_command.command("list")
@report_options
def list_command(ctx: click.Context, as_json: bool) -> None:
    """List the calls that wait for a person, the oldest first; secrets are shown as markers."""
    _print_waiting(ctx, as_json=as_json)


def _print_waiting(ctx: click.Context, *, as_json: bool) -> None:
    journal = open_selected_journal(ctx)
    entries = StoredApprovals(journal.store, SystemClock()).list_entries()
    requests = [entry.request for entry in entries if entry.answer is None]
    if as_json:
        print_json([_request_to_json(request) for request in requests])
    elif not requests:
        print_message("No call waits for an approval.")
    else:
        titles = ("id", "agent", "tool", "arguments", "risk", "because", "call", "run", "expires (UTC)")
        print_result(build_grid(titles, map(_build_row, requests), unwrapped_columns=(0, 1, 2, 8)))


def _build_row(request: ApprovalRequest) -> Sequence[object]:
    return (
        to_cell(request.id, "bold"),
        _describe_caller(request),
        to_cell(request.tool, "bold"),
        preview_json(request.arguments),
        request.risk_level,
        to_cell(request.reason, "dim"),
        request.tool_call_id,
        request.run_id or "-",
        format_time(request.expires),
    )


def _describe_caller(request: ApprovalRequest) -> str:
    return " for ".join((request.agent or OPERATOR, *request.chain))


def _request_to_json(request: ApprovalRequest) -> JsonObject:
    times = {"asked": request.asked.isoformat(), "expires": request.expires.isoformat()}
    names = ("id", "tool_call_id", "run_id", "agent", "chain", "tool", "arguments", "risk_level", "reason")
    return {**{name: getattr(request, name) for name in names}, "fingerprint": request.fingerprint, **times}


# ── answers ──────────────────────────────────────────────────────────────────────────────────────


@approvals_command.command("approve")
@click.argument("id")
@click.option("--edit", metavar="JSON", help="Let it run with other arguments: an object with what is to change.")
@_reason_option
@_by_option
@report_options
def approve_command(ctx: click.Context, id: str, *, edit: str | None, reason: str, by: str, as_json: bool) -> None:
    """
    Approve the request with this ID; a call's id does, too, where one request alone waits under it.

    The call runs once, when its program sends it again; a program that waits does so within a second.
    An edit is checked like the arguments of any call when the call runs.
    """
    changes = None if edit is None else _parse_edit(edit)
    _record_answer(ctx, id, lambda request: Allow(_merge_edit(request, changes), by, reason), as_json=as_json)


@approvals_command.command("deny")
@click.argument("id")
@_reason_option
@_by_option
@report_options
def deny_command(ctx: click.Context, id: str, *, reason: str, by: str, as_json: bool) -> None:
    """Deny the request with this ID; a call's id does, too, where one request alone waits under it."""
    _record_answer(ctx, id, lambda _: Deny(reason, by), as_json=as_json)


def _parse_edit(text: str) -> JsonObject:
    try:
        changes = parse_typed_json(text)
    except ValueError as error:
        fix = """an edit is an object: --edit '{"amount": 5}'."""
        raise UsageError(f"--edit is not valid JSON ({error}); {fix}") from error
    if not isinstance(changes, dict):
        raise UsageError(f"--edit takes an object with the arguments to change, not {preview_json(changes)}.")
    return changes


def _merge_edit(request: ApprovalRequest, changes: JsonObject | None) -> Mapping[str, object] | None:
    return None if changes is None else {**request.arguments, **changes}


def _record_answer(
    ctx: click.Context, name: str, make_answer: Callable[[ApprovalRequest], ApprovalAnswer], *, as_json: bool
) -> None:
    """
    Record the answer to a request that waits, and print it.

    Raises:
        CommandError: No such request waits, or several do; or the answer cannot be recorded.
    """
    journal = open_selected_journal(ctx)
    approvals = StoredApprovals(journal.store, SystemClock())
    request = _find_request(approvals.list_entries(), name)
    answer = make_answer(request)
    plan = Redactor(key=load_store_key(journal.store)).build_plan()
    try:
        approvals.write_answer(request.id, answer, plan)
    except ToolUsageError as problem:
        raise CommandError(str(problem)) from problem
    verb = "approved" if isinstance(answer, Allow) else "denied"
    text = f"{verb.capitalize()}: {_describe_caller(request)} calls {request.tool}, request {request.id}."
    with report_effect(text):
        if as_json:
            print_json({"id": request.id, "tool_call_id": request.tool_call_id, "answer": verb})
        else:
            print_result(to_cell(text))


def _find_request(entries: Sequence[ApprovalEntry], name: str) -> ApprovalRequest:
    """
    Return the request that waits under *name*.

    Raises:
        CommandError: There is none, or several, or it was answered before.
    """
    if not any(name in (entry.request.id, entry.request.tool_call_id) for entry in entries):
        raise UsageError(f"No request {name!r} waits for an approval. praval-tools approvals lists those that do.")
    try:
        return find_entry(entries, name, is_waiting=True).request
    except ToolUsageError as problem:
        raise CommandError(str(problem)) from problem
