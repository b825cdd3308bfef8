"""
The short road of a journaled call: what is the same for all calls of one agent to one tool is worked out once.

A road is true of one state, and only for arguments that are a strict match and hold nothing secret.
Everything else goes the long way, which also takes over from here where something unusual happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from praval_tools.access.records import Principal
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
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.tool import Tool

_MAX_PATHS: Final = 16_384
_OK: Final = Outcome.OK


class JournaledFastPath(msgspec.Struct, frozen=True, eq=False):
    """
    A road, and what is the same for all calls on it that are plain and quick to write.

    Args:
        runtime: The registry's.
        lane: Enters the function.
        definition: Of the tool.
        plan: What is secret in its calls.
        fingerprint: Of the tool.
        decided: What is written of the decision.
        encode: Gives the tool's value as JSON.
    """

    fast_path: FastPath
    tool: Tool[..., Any]
    scope: FrameScope
    runtime: Runtime
    fast_function: FastFunction
    definition: ToolImplementation
    redaction_plan: RedactionPlan
    fingerprint: str
    decision_fields: Any
    encode_result: Callable[[Any], Any]

    def match_arguments(self, call: ToolCall) -> dict[str, Any] | None:
        """Return a copy of the call's arguments, where they are a strict match without secrets; else None."""
        if type(call.arguments) is not dict or call.reason or call.engine or call.agent != self.scope.actor:
            return None
        arguments = self.definition.copy_exact_match(call.arguments)
        if arguments is None or not is_plain_json(arguments):
            return None
        clean, secrets = self.redaction_plan.redact_arguments(arguments)
        return arguments if clean is arguments and not secrets else None


class ReplayContext(msgspec.Struct, eq=False):
    """Where a call stands in its run; nothing outside of runs."""

    run: OpenRun | None = None
    entry: ReplayEntry | None = None
    request: ReplayQuery | None = None


class JournaledFastCall(msgspec.Struct, eq=False):
    """A call on its short road, with its own copy of the arguments."""

    fast_path: JournaledFastPath
    arguments: dict[str, Any]

    def build_request(self, call: ToolCall) -> ReplayQuery:
        """Return what the call is looked for by."""
        arguments = self.arguments
        return ReplayQuery(
            call.tool_call_id, call.agent, call.name, call.parent_id or get_parent_id(), arguments, compute_digest(arguments), "",
            self.fast_path.fingerprint,
        )  # fmt: skip

    def build_start_record(self, call: ToolCall, request: ReplayQuery | None) -> Record | None:
        """Return the record of a call that is about to start; None: it cannot be written quickly."""
        road, digest = self.fast_path, "" if request is None else request.digest
        return call_records.build_plain_start_record(
            road.runtime.clock, call, self.arguments, road.decision_fields, road.fingerprint, digest=digest
        )

    def build_enter_effect(self, call: ToolCall) -> RunFastFunction:
        """Return the step that enters the function."""
        road, arguments = self.fast_path, self.arguments
        return RunFastFunction(road.fast_function, arguments, make_frame(road.scope, arguments, call))

    def build_result(self, call: ToolCall, value: Any, seconds: float) -> ToolResult:
        """Return the result of a call that returned *value* after so many seconds."""
        road = self.fast_path
        return ToolResult(
            call.tool_call_id, call.name, call.agent, _OK, value, None, None, seconds * 1000, 1, (), False,
            road.fast_path.decision, None, road.fast_path.max_result_size,
        )  # fmt: skip

    def build_end_record(self, call: ToolCall, result: ToolResult) -> Record | None:
        """Return the record of a call that returned a plain value; None: it must be looked at closely."""
        value, road = result.result, self.fast_path
        if not is_plain_json(value):
            return None
        try:
            if type(value) in SCALAR_TYPES:  # no code of its own can run
                value = road.encode_result(value)
            else:
                with activate_frame(make_frame(road.scope)):
                    value = road.encode_result(value)
        except Unencodable:
            return None
        if value is not result.result and not is_plain_json(value):
            return None
        if road.redaction_plan.redact_result(value, NO_SECRETS) is not value:
            return None
        return call_records.build_plain_end_record(road.runtime.clock, call, result, value)

    def build_execution(self, call: ToolCall, attempts: int) -> RunTool:
        """Return the call as the long way would have decided it, and entered it so often."""
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
        runtime: The registry's.
        finder: Knows what is secret in a tool's calls.
    """

    def __init__(self, runtime: Runtime, finder: CallMatcher) -> None:
        self._runtime, self._matcher = runtime, finder
        self._paths: tuple[Any, dict[tuple[Principal, str], JournaledFastPath | Literal[False]]] = (None, {})

    def find_fast_call(
        self, call: ToolCall, who: Principal | None, *, awaited: bool | None
    ) -> JournaledFastCall | None:
        """Return *call* on its short road; None: it must go the long way, or not with such a driver."""
        if who is None or type(call.name) is not str:
            return None
        state, (since, known) = self._runtime.access_store.state, self._paths
        if since is not state or len(known) > _MAX_PATHS:
            self._paths = state, (known := {})
        road = known.get((who, call.name))
        if road is None:
            road = self._build_path(who, call.name)
            if road is not None or not (
                self._runtime.access_store.has_open_change or self._runtime.exclusive_gate.is_closed
            ):
                known[who, call.name] = road or False
        if not isinstance(road, JournaledFastPath) or road.tool.is_async is not awaited:
            return None
        arguments = road.match_arguments(call)
        return None if arguments is None else JournaledFastCall(road, arguments)

    def _build_path(self, who: Principal, name: str) -> JournaledFastPath | None:
        path = find_fast_path(self._runtime, who, name)
        tool, scope, decision = path.tool, path.scope, path.decision
        if tool is None or scope is None or decision is None or path.has_steps:
            return None
        if tool.implementation.runs_user_code or not call_records.is_encodable_text(who.agent):
            return None
        function = build_fast_function(self._runtime, path, _raise_error)
        return JournaledFastPath(
            fast_path=path, tool=tool, scope=scope, runtime=self._runtime, fast_function=function,
            definition=tool.implementation, redaction_plan=self._matcher.get_redaction_plan(tool),
            fingerprint=tool.fingerprint, decision_fields=call_records.to_decision_fields(decision),
            encode_result=tool.implementation.compiled.encode_result,
        )  # fmt: skip
