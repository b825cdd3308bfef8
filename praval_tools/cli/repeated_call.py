"""The option `--id` of `call`: a call that waits for an approval is named, and made again once it is approved."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import click

from praval_tools import Ask, Deny, Outcome, ToolRegistry, ToolResult, current_call
from praval_tools.cli.common import (
    DEFAULT_JOURNAL,
    JsonObject,
    UsageError,
    find_command_line,
)
from praval_tools.cli.journal_option import MEMORY_JOURNAL_NAME
from praval_tools.clock import SystemClock
from praval_tools.execution.approvals import UNANSWERED
from praval_tools.journal import CallRefused, Journal
from praval_tools.journal.events import ApprovalAsked
from praval_tools.journal.redaction.short_secrets import MARKER_PATTERN
from praval_tools.journal.stored_approvals import StoredApprovals
from praval_tools.registry.registry import get_runtime
from praval_tools.schema.json_input import parse_arguments
from praval_tools.tools.decision import ApprovalRequest
from praval_tools.tools.tool import AnyTool

id_option = click.option(
    "--id",
    "call_id",
    metavar="CALL_ID",
    help="Make the call again that waited for an approval under this id: once, with its arguments.",
)


def find_waiting_request(registry: ToolRegistry, agent: str, tool: str, call_id: str) -> ApprovalRequest:
    """
    Return the request of a call of *agent* to *tool* that waits for an approval, or has an answer that is not used.

    Raises:
        UsageError: There is none of this id; the text says why that may be.
    """
    journal = _find_lasting_journal(registry)
    if journal is None:
        raise UsageError("--id names a call that waits in a journal, and there is none. Name it: --journal PATH.")
    wanted = (call_id, agent, tool, (), None)
    for request in _list_requests(journal):
        if (request.tool_call_id, request.agent, request.tool, request.chain, request.run_id) == wanted:
            return request
    raise UsageError(
        f"No call {call_id!r} of {agent!r} to {tool!r} waits: it ran already, its approval has expired, or it was "
        f"never made. praval-tools approvals lists those that wait; without --id the call is a new one."
    )


def read_stored_arguments(registry: ToolRegistry, request: ApprovalRequest) -> JsonObject:
    """
    Return the arguments of a call that waits, as it passed them: classes may make others of those of the request.

    Raises:
        UsageError: Secrets are among them.
    """
    arguments = _find_passed_arguments(registry, request)
    if arguments is None:
        arguments = dict(request.arguments)
    if _holds_secrets(request.arguments) or _holds_secrets(arguments):
        raise UsageError(
            f"The arguments of call {request.tool_call_id!r} hold secrets, which the journal does not keep: "
            f"give all arguments again."
        )
    return arguments


def _find_passed_arguments(registry: ToolRegistry, request: ApprovalRequest) -> JsonObject | None:
    """Return what the call that asked for *request* passed; None where its program still waits for the answer."""
    if (journal := _find_lasting_journal(registry)) is None:
        return None
    is_asked = False
    for event in journal.events(call_id=request.tool_call_id, agent=request.agent, tool=request.tool):
        if isinstance(event, ApprovalAsked) and event.id == request.id:
            is_asked = True
        elif is_asked and isinstance(event, CallRefused) and event.outcome is Outcome.APPROVAL_REQUIRED:
            return parse_arguments(event.arguments)
    return None


def _holds_secrets(arguments: object) -> bool:
    return MARKER_PATTERN.search(json.dumps(arguments, ensure_ascii=False, default=str)) is not None


@contextmanager
def require_approval_of(registry: ToolRegistry, request: ApprovalRequest) -> Iterator[None]:
    """
    Let the call of *request*, while the `with` block runs, run with its approval only, also where it needs none now.

    With other arguments it is denied.
    """
    handler, own_handler = get_runtime(registry).approvals.effective_handler, registry.approvals.handler

    def answer_request(asked: ApprovalRequest) -> object:
        if asked.tool_call_id == request.tool_call_id and asked.digest != request.digest:
            text = f"call {request.tool_call_id!r} was made with other arguments, or its tool was another one"
            return Deny(f"{text}; without --id it is a new call", by="praval-tools")
        return UNANSWERED if handler is None else handler(asked)

    def ask_again(agent: str | None, tool: AnyTool, arguments: object) -> Ask | None:
        is_its_call = (agent, tool.name) == (request.agent, request.tool) and current_call() is None  # none inside it
        return Ask(request.reason) if is_its_call else None

    registry.approvals.handler, remove_policy = answer_request, registry.add_policy(ask_again)
    try:
        yield
    finally:
        remove_policy()
        registry.approvals.handler = own_handler


def list_next_commands(
    ctx: click.Context, registry: ToolRegistry, result: ToolResult, words: tuple[str, ...]
) -> list[tuple[str, str]]:
    """Return what the operator does about a call that needs an approval: each time what for, and the command."""
    if result.outcome is not Outcome.APPROVAL_REQUIRED:
        return []
    journal, call = _find_lasting_journal(registry), [result.agent or "", result.name]
    if journal is None and registry.journal is not None:
        return [("An approval needs a journal in a file, and that of this registry is in memory", "")]
    if journal is None:
        again = find_command_line(ctx, journal=DEFAULT_JOURNAL).write("call", [*call, *words])
        return [("An approval needs a journal, which keeps the request", again)]
    request = next((row for row in _list_requests(journal) if row.id == result.approval_id), None)
    if request is None:  # somebody answered and used it meanwhile
        return []
    given, command_line = ["ARGUMENTS"] if _holds_secrets(request.arguments) else [], find_command_line(ctx)
    return [
        ("To approve it", command_line.write("approvals approve", [request.id])),
        ("Then, to make it once", command_line.write("call", [*call, *given], ["--id", request.tool_call_id])),
    ]


def _find_lasting_journal(registry: ToolRegistry) -> Journal | None:
    journal = registry.journal
    return None if journal is None or journal.name == MEMORY_JOURNAL_NAME else journal


def _list_requests(journal: Journal) -> list[ApprovalRequest]:
    return [entry.request for entry in StoredApprovals(journal.store, SystemClock()).list_entries()]
