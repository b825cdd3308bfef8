"""
The fast path of journaled calls: what all calls of one agent to one tool have in common is worked out once.

A fast path holds for one access state, and only for arguments that match the schema exactly and hold no secrets.
All other calls go through the pipeline, which also takes over where something unusual happens on the fast path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from praval_tools.access.records import Principal
from praval_tools.access.state import AccessState
from praval_tools.execution.context import FrameScope, activate_frame, make_frame
from praval_tools.execution.effects import RunFastFunction, RunTool
from praval_tools.execution.fast_path import FastFunction, FastPath, build_fast_function, find_fast_path
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.redaction.redactor import RedactionPlan
from praval_tools.journal.redaction.secret_search import NO_SECRETS
from praval_tools.journal.replay import ReplayEntry, ReplayQuery, compute_digest
from praval_tools.journal.storage.protocol import Record
from praval_tools.journal.value_codec import is_plain_json
from praval_tools.runs import call_records
from praval_tools.runs.matching import CallMatcher, get_parent_id
from praval_tools.runs.open_run import OpenRun
from praval_tools.schema.json_input import copy_json
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.tool import AnyTool

_MAX_PATHS: Final = 16_384
_OK: Final = Outcome.OK
_PathCache: TypeAlias = dict[tuple[Principal, str], "JournaledFastPath | Literal[False]"]


class JournaledFastPath(msgspec.Struct, frozen=True, eq=False):
    """
    A fast path of the executor, with what is recorded alike for all calls on it.

    Args:
        fast_path: The executor's fast path.
        tool: The tool.
        scope: Registry, principal and tool of the calls' context.
        runtime: The runtime of the registry.
        fast_function: Enters the tool's function.
        definition: The implementation of the tool.
        redaction_plan: What is secret in calls of the tool.
        fingerprint: The fingerprint of the tool.
        principal_text: What is recorded of the principal, beside its agent and chain.
        decision_fields: What is written of the decision.
        encode_result: Converts the tool's value to JSON.
    """

    fast_path: FastPath
    tool: AnyTool
    scope: FrameScope
    runtime: Runtime
    fast_function: FastFunction
    definition: ToolImplementation
    redaction_plan: RedactionPlan
    fingerprint: str
    principal_text: str
    decision_fields: call_records.DecisionFields
    encode_result: Callable[[object], object]

    def match_arguments(self, call: ToolCall) -> dict[str, Any] | None:
        """Return a copy of the call's arguments, if they match exactly and hold no secrets."""
        if type(call.arguments) is not dict or call.reason or call.engine or call.agent != self.scope.actor:
            return None
        arguments = self.definition.copy_exact_match(call.arguments)
        if arguments is None or not is_plain_json(arguments):
            return None
        clean, secrets = self.redaction_plan.redact_arguments(arguments)
        return arguments if clean is arguments and not secrets else None


class ReplayContext(msgspec.Struct, eq=False):
    """The run of a call, its entry there and the query that found it; all None for a call outside runs."""

    run: OpenRun | None = None
    entry: ReplayEntry | None = None
    request: ReplayQuery | None = None

    def mark_started(self, record: Record) -> None:
        """Apply the record of the start to the call of a run."""
        if self.run is not None and self.entry is not None:
            self.run.count_event()
            self.entry.mark_started(record)

    def mark_ended(self, record: Record) -> None:
        """Apply the record of the end of a call that succeeded."""
        if self.run is not None and self.entry is not None:
            self.run.count_event()
            self.entry.mark_ended(record, Outcome.OK)


class JournaledFastCall(msgspec.Struct, eq=False):
    """A call on its fast path, with its own copy of the arguments."""

    fast_path: JournaledFastPath
    arguments: dict[str, Any]

    def build_request(self, call: ToolCall) -> ReplayQuery:
        """Return the query that finds the recorded call."""
        arguments = self.arguments
        return ReplayQuery(
            call.tool_call_id, call.agent, call.name, call.on_behalf_of, self.fast_path.principal_text,
            call.parent_id or get_parent_id(), arguments, compute_digest(arguments), "", self.fast_path.fingerprint,
        )  # fmt: skip

    def build_start_record(self, call: ToolCall, request: ReplayQuery | None) -> Record | None:
        """Return the record of a call that is about to start, if it is plain enough for the fast path."""
        path, digest = self.fast_path, "" if request is None else request.digest
        return call_records.build_plain_start_record(
            path.runtime.clock, call, self.arguments, path.decision_fields, path.fingerprint, digest=digest,
            principal=path.principal_text,
        )  # fmt: skip

    def build_enter_effect(self, call: ToolCall) -> RunFastFunction:
        """Return the effect that enters the function."""
        path, arguments = self.fast_path, copy_json(self.arguments)  # a retry gets what this attempt got
        return RunFastFunction(path.fast_function, arguments, make_frame(path.scope, arguments, call))

    def build_result(self, call: ToolCall, value: Any, seconds: float) -> ToolResult:
        """Return the result of a call whose function returned *value* after *seconds*."""
        path = self.fast_path
        return ToolResult(
            call.tool_call_id, call.name, call.agent, _OK, value, None, None, seconds * 1000, 1, (), False,
            path.fast_path.decision, None, path.fast_path.max_result_size,
        )  # fmt: skip

    def build_end_record(self, call: ToolCall, result: ToolResult) -> Record | None:
        """Return the record of a call that returned a value, if the value is plain enough for the fast path."""
        value, path = result.result, self.fast_path
        if not is_plain_json(value):
            return None
        try:
            if type(value) in SCALAR_TYPES:  # cannot run code of its own
                value = path.encode_result(value)
            else:
                with activate_frame(make_frame(path.scope)):
                    value = path.encode_result(value)
        except Unencodable:
            return None
        if value is not result.result and not is_plain_json(value):
            return None
        if path.redaction_plan.redact_result(value, NO_SECRETS) is not value:
            return None
        return call_records.build_plain_end_record(path.runtime.clock, call, result, value)

    def build_execution(self, call: ToolCall, attempts: int) -> RunTool:
        """Return the call as the pipeline would have decided it, its function entered *attempts* times."""
        path = self.fast_path
        bound = path.definition.bind_coerced(self.arguments, ())
        resolution, state = path.fast_path.resolution, path.fast_path.state
        return RunTool(
            path.runtime, call, path.scope.principal, path.tool, bound, resolution, resolution.paths[0], state,
            attempts=attempts,
        )  # fmt: skip


def _raise_error(_: object, error: BaseException) -> None:
    raise error


class JournaledFastPaths:
    """
    The journaled fast paths of one registry, for its present state; each is built with the first call.

    Args:
        runtime: The runtime of the registry.
        matcher: Knows what is secret in a tool's calls.
    """

    def __init__(self, runtime: Runtime, matcher: CallMatcher) -> None:
        self._runtime, self._matcher = runtime, matcher
        self._paths: tuple[AccessState | None, _PathCache] = (None, {})

    def find_fast_call(
        self, call: ToolCall, principal: Principal | None, *, awaited: bool | None
    ) -> JournaledFastCall | None:
        """
        Return *call* on its fast path.

        Returns:
            None where the call needs the pipeline, or the tool another driver (sync or async).
        """
        if principal is None or type(call.name) is not str:
            return None
        state, (cached_state, paths) = self._runtime.access_store.state, self._paths
        if cached_state is not state or len(paths) > _MAX_PATHS:
            self._paths = state, (paths := {})
        path = paths.get((principal, call.name))
        if path is None:
            path = self._build_path(principal, call.name)
            if self._runtime.access_store.has_open_change or self._runtime.exclusive_gate.is_closed:
                return None  # read after the state: what ends soon, without a new state, is waited for in the pipeline
            paths[principal, call.name] = path or False
        if not isinstance(path, JournaledFastPath) or path.tool.is_async is not awaited:
            return None
        arguments = path.match_arguments(call)
        return None if arguments is None else JournaledFastCall(path, arguments)

    def _build_path(self, principal: Principal, name: str) -> JournaledFastPath | None:
        path = find_fast_path(self._runtime, principal, name)
        tool, scope, decision = path.tool, path.scope, path.decision
        if tool is None or scope is None or decision is None or path.has_steps:
            return None
        if tool.implementation.runs_user_code or not call_records.is_encodable_text(principal.agent):
            return None
        function = build_fast_function(self._runtime, path, _raise_error)
        return JournaledFastPath(
            fast_path=path, tool=tool, scope=scope, runtime=self._runtime, fast_function=function,
            definition=tool.implementation, redaction_plan=self._matcher.get_redaction_plan(tool),
            fingerprint=tool.fingerprint, principal_text=principal.delegation_digest,
            decision_fields=call_records.to_decision_fields(decision),
            encode_result=tool.implementation.compiled.encode_result,
        )  # fmt: skip
