"""
The short road of a journaled call: what is the same for all calls of one agent to one tool is worked out once.

A road is true of one state, and only for arguments that are a strict match and hold nothing secret.
Everything else goes the long way, which also takes over from here where something unusual happens.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec.structs import asdict

from praval_tools.access.records import Principal
from praval_tools.execution.context import frame_of, running
from praval_tools.execution.effects import Enter, Run
from praval_tools.execution.fast_path import Lane, Road
from praval_tools.execution.fast_path_rules import new_lane
from praval_tools.execution.runtime import Runtime
from praval_tools.journal.redaction.redactor import Plan
from praval_tools.journal.redaction.secret_search import NO_SECRETS
from praval_tools.journal.replay import Entry, Request, digest_of
from praval_tools.journal.storage.protocol import Record
from praval_tools.journal.value_codec import is_plain
from praval_tools.runs import call_records
from praval_tools.runs.matching import Finder, parent
from praval_tools.runs.open_run import OpenRun
from praval_tools.schema.json_input import SCALARS
from praval_tools.schema.type_handler import Unencodable
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.implementation import Definition

_MOST_ROADS: Final = 16_384
_UNSEEN: Final[bool | None] = None
"""What is known of a tool that was not called yet in this state; True has its road made at once, and tests do that."""
_OK: Final = Outcome.OK


class JournaledRoad(Road, frozen=True, eq=False):
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

    runtime: Runtime
    lane: Lane
    definition: Definition
    plan: Plan
    fingerprint: str
    decided: Any
    encode: Callable[[Any], Any]

    def taken(self, call: ToolCall) -> dict[str, Any] | None:
        """Return a copy of the call's arguments, where they are a strict match without secrets; else None."""
        if type(call.arguments) is not dict or call.reason or call.engine or call.agent != self.site.actor:
            return None
        arguments = self.definition.strictly(call.arguments)
        if arguments is None or not is_plain(arguments):
            return None
        clean, secrets = self.plan.arguments(arguments)
        return arguments if clean is arguments and not secrets else None


class Place(msgspec.Struct, eq=False):
    """Where a call stands in its run; nothing outside of runs."""

    run: OpenRun | None = None
    entry: Entry | None = None
    request: Request | None = None


class Short(msgspec.Struct, eq=False):
    """A call on its short road, with its own copy of the arguments."""

    road: JournaledRoad
    arguments: dict[str, Any]

    def request(self, call: ToolCall) -> Request:
        """Return what the call is looked for by."""
        arguments = self.arguments
        return Request(
            call.tool_call_id, call.agent, call.name, call.parent_id or parent(), arguments, digest_of(arguments), "",
            self.road.fingerprint,
        )  # fmt: skip

    def began(self, call: ToolCall, request: Request | None) -> Record | None:
        """Return the record of a call that is about to start; None: it cannot be written quickly."""
        road, digest = self.road, "" if request is None else request.digest
        return call_records.quick_start(
            road.runtime.clock, call, self.arguments, road.decided, road.fingerprint, digest=digest
        )

    def enter(self, call: ToolCall) -> Enter:
        """Return the step that enters the function."""
        road, arguments = self.road, self.arguments
        return Enter(road.lane, arguments, frame_of(road.site, arguments, call))

    def result(self, call: ToolCall, value: Any, seconds: float) -> ToolResult:
        """Return the result of a call that returned *value* after so many seconds."""
        road = self.road
        return ToolResult(
            call.tool_call_id, call.name, call.agent, _OK, value, None, None, seconds * 1000, 1, (), False,
            road.decision, None, road.most,
        )  # fmt: skip

    def ended(self, call: ToolCall, result: ToolResult) -> Record | None:
        """Return the record of a call that returned a plain value; None: it must be looked at closely."""
        value, road = result.result, self.road
        if not is_plain(value):
            return None
        try:
            if type(value) in SCALARS:  # no code of its own can run
                value = road.encode(value)
            else:
                with running(frame_of(road.site)):
                    value = road.encode(value)
        except Unencodable:
            return None
        if value is not result.result and not is_plain(value):
            return None
        if road.plan.result(value, NO_SECRETS) is not value:
            return None
        return call_records.quick_end(road.runtime.clock, call, result, value)

    def run(self, call: ToolCall, attempts: int) -> Run:
        """Return the call as the long way would have decided it, and entered it so often."""
        road = self.road
        bound = road.definition.bound(self.arguments, ())
        return Run(
            road.runtime, call, road.site.who, road.tool, bound, road.verdict, road.verdict.paths[0], road.state,
            attempts=attempts,
        )  # fmt: skip


class Roads:
    """
    The roads of one registry, for its present state; made for the second call, as many a state has no second one.

    Args:
        runtime: The registry's.
        finder: Knows what is secret in a tool's calls.
    """

    def __init__(self, runtime: Runtime, finder: Finder) -> None:
        self._runtime, self._finder = runtime, finder
        self._roads: tuple[Any, dict[tuple[Principal, str], JournaledRoad | bool]] = (None, {})

    def short(self, call: ToolCall, who: Principal | None, *, awaited: bool | None) -> Short | None:
        """Return *call* on its short road; None: it must go the long way, or not with such a driver."""
        if who is None or type(call.name) is not str:
            return None
        state, (since, known) = self._runtime.ledger.state, self._roads
        if since is not state or len(known) > _MOST_ROADS:
            self._roads = state, (known := {})
        road = known.get((who, call.name), _UNSEEN)
        if road is None:
            known[who, call.name] = True
        elif road is True:
            road = self._made(who, call.name)
            if road is not None or not (self._runtime.ledger.changing or self._runtime.turnstile.closed):
                known[who, call.name] = road or False
        if not isinstance(road, JournaledRoad) or road.tool.is_async is not awaited:
            return None
        arguments = road.taken(call)
        return None if arguments is None else Short(road, arguments)

    def _made(self, who: Principal, name: str) -> JournaledRoad | None:
        lane = new_lane(self._runtime, who, name)
        if lane is None or lane.road.tool.definition_.runs_code or not call_records.is_text(who.agent):
            return None
        tool, decided = lane.road.tool, call_records.decided(lane.road.decision)
        return JournaledRoad(
            **asdict(lane.road), runtime=self._runtime, lane=lane, definition=tool.definition_,
            plan=self._finder.plan(tool), fingerprint=tool.fingerprint, decided=decided,
            encode=tool.definition_.compiled.encode_result,
        )  # fmt: skip
