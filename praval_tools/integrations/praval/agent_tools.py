"""The tools of an attached Praval agent: the entries that Praval reads and calls, and what the agent declares."""

from __future__ import annotations

from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, MutableMapping, ValuesView
from typing import Any, Final

from praval_tools.compat.praval.catalogue import get_catalogue
from praval_tools.compat.praval.conversion import get_praval_name, get_registration, refresh_praval_tool, to_plain_key
from praval_tools.errors import ToolUsageError
from praval_tools.integrations.praval.entries import Arguments, ToolEntry, build_entry_function
from praval_tools.integrations.praval.migration import ToolMigrator, build_entry_tool
from praval_tools.integrations.praval.person_approvals import ANSWERED_BY, PersonApproval, describe_shown_tool
from praval_tools.integrations.praval.praval_modules import PravalObject, import_praval_module
from praval_tools.names import OPERATOR, fold_name, has_type, to_wire_name
from praval_tools.registry.agents import Agent, AgentTool
from praval_tools.registry.catalogue import Collisions
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.decision import Allow
from praval_tools.tools.frames import activate_tool_frame, get_current_actor
from praval_tools.tools.tool import AnyTool

_EXTRA_FIELDS: Final = ("strict", "metadata", "async_only")
"""Fields that Praval's own entries may have besides."""


class AgentTools:
    """
    The tools of one attached agent.

    Args:
        praval_agent: Praval's agent.
        agent: The agent in the registry.
        collisions: What happens where a tool that the agent declares has the name of another's.
    """

    def __init__(self, praval_agent: PravalObject, agent: Agent, collisions: Collisions) -> None:
        self.praval_agent, self.agent, self.registry = praval_agent, agent, agent.registry
        self._collisions = collisions
        self._result_class = import_praval_module("praval.models").ToolResult

    def names(self) -> dict[str, str]:
        """Return the tools that the agent may call now: declared name and name in the registry."""
        return {self._find_declared_name(name): name for name in self.agent.tools}

    def _find_declared_name(self, name: str) -> str:
        """Return the name under which Praval knows a tool, where that leads to no other tool; else *name* itself."""
        tool, catalogue = self.registry.get_tool(name), get_catalogue(self.registry)
        declared_name = name if tool is None else get_praval_name(tool)
        return declared_name if catalogue.find_declared_tool(declared_name) is tool else name

    def entries(self, only: Iterable[str] | None = None) -> list[ToolEntry]:
        """Return the entries of the tools that may be called now, of all or of those *only*."""
        names = [name for name in (self.agent.tools if only is None else only) if name in self.agent.tools]
        schemas = {schema["name"]: schema for schema in self.agent.schemas("anthropic")} if names else {}
        by_name = ((name, schemas.get(to_wire_name(name))) for name in names)
        return [  # a tool without a schema was removed since the names were read
            self._build_entry(name, schema, None, None) for name, schema in by_name if schema is not None
        ]

    def build_called_entry(
        self, wire_name: str, *, is_async: bool, approval: PersonApproval | None = None
    ) -> ToolEntry:
        """
        Return the entry of a tool that a model called, allowed or not: its function decides, and records.

        Args:
            wire_name: The name that the model sent.
            is_async: Whether the function is to return an awaitable.
            approval: That of the person who decided on this call, if one did.
        """
        schema = {"name": wire_name, "description": "", "input_schema": {}}
        return self._build_entry(self.resolve_wire_name(wire_name), schema, is_async, approval)

    def resolve_wire_name(self, wire_name: str) -> str:
        """Return the name of the tool that is offered as *wire_name*; else *wire_name* itself."""
        holder = self.registry.state.names_by_wire_key.get(fold_name(wire_name))
        return holder if holder is not None and wire_name in (holder, to_wire_name(holder)) else wire_name

    def _build_entry(
        self, name: str, schema: Mapping[str, object], is_async: bool | None, approval: PersonApproval | None
    ) -> ToolEntry:
        tool, wire_name = self.registry.get_tool(name), str(schema["name"])
        asks = tool is not None and self._needs_praval_approval(tool) and name in self.agent.tools
        entry = ToolEntry(
            name=wire_name,
            description=schema["description"],
            parameters=schema["input_schema"],
            function=self._build_function(name, wire_name, tool, is_async, approval if asks else None),
            requires_approval=asks,
            risk_level="low" if tool is None else tool.metadata.risk_level,
            approval_reason="" if tool is None else tool.metadata.approval_reason,
            **({} if tool is None else _get_extra_fields(tool)),
        )
        entry.shown = describe_shown_tool(tool) if tool is not None and asks else []
        return entry

    def _needs_praval_approval(self, tool: AnyTool) -> bool:
        """Tell whether Praval asks a person; where it cannot, and the registry has a handler, that is asked."""
        registration, needed = get_registration(tool), tool.metadata.requires_approval
        if registration is not None:  # Praval's own metadata can be changed by anyone
            with activate_tool_frame(tool.name):  # and so can be objects with code of their own
                needed = needed or bool(refresh_praval_tool(tool, registration).metadata.requires_approval)
        return needed and (self.praval_agent._hitl_enabled or self.registry.approvals.handler is None)

    def _build_function(
        self, name: str, wire_name: str, tool: AnyTool | None, is_async: bool | None, approval: PersonApproval | None
    ) -> Callable[..., Any]:
        agent, is_async_tool = self.agent, tool is not None and tool.is_async
        signature = None if tool is None else tool.signature
        if is_async is None:  # an entry of `agent.tools`: values and exceptions, as of any function
            return build_entry_function(
                wire_name,
                lambda arguments: agent.call(name, **arguments),
                lambda arguments: agent.acall(name, **arguments),
                signature=signature,
                is_async=None,
            )

        def build_call(arguments: Arguments) -> ToolCall:
            call_id = None if approval is None else approval.call_id
            return ToolCall(call_id, name, arguments, agent.name).with_id()

        def call(arguments: Arguments) -> object:
            request = build_call(arguments)
            result = agent.execute(request)
            if approval is not None and self._forward_approval(approval, arguments, result):
                result = agent.execute(request)
            return self._to_praval_result(result)

        async def acall(arguments: Arguments) -> object:
            request = build_call(arguments)
            result = await agent.aexecute(request)
            if approval is not None and self._forward_approval(approval, arguments, result):
                result = await agent.aexecute(request)
            return self._to_praval_result(result)

        # sync code in the thread of a loop can wait for an async tool in another thread only, as Praval does
        awaited = is_async or (None if is_async_tool else False)
        return build_entry_function(wire_name, call, acall, signature=signature, is_async=awaited)

    def _forward_approval(self, approval: PersonApproval, arguments: Arguments, result: ToolResult) -> bool:
        """
        Give the approval of a person in Praval to the registry, where the call waits and the host resumes it; once.

        It counts for the tool that the person was shown: of another definition, origin or risk, the call goes on
        waiting in the registry. And for the arguments that the person was shown, or wrote: where a class of the
        parameters makes others of them, the call is forbidden.
        """
        if result.outcome is not Outcome.APPROVAL_REQUIRED or result.approval_id is None:
            return False
        if get_current_actor() != OPERATOR:  # whose code could as well have decided for the person
            return False
        if not approval.use(self.registry, self.registry.get_tool(result.name)):
            return False
        answer = Allow(arguments, by=ANSWERED_BY, reason="a person approved the intervention in Praval")
        self.registry.approvals.answer(result.approval_id, answer)
        return True

    def _to_praval_result(self, result: ToolResult) -> object:
        if result.success and has_type(result.result, self._result_class):
            return result.result
        text = result.for_model()
        if result.success:
            return text
        return self._result_class(tool_call_id="", name=result.name, content=f"Error: {text}", is_error=True)

    def declare_tool(self, name: str, entry: Mapping[str, Any]) -> None:
        """Register a tool that the agent's own `tool` or `add_tool_spec` declares."""
        migrator = ToolMigrator(get_catalogue(self.registry), self._collisions, replace_own="all")
        owner = self.praval_agent.name
        with self.registry.change():
            registered = migrator.migrate_tool(build_entry_tool(name, entry, owner), owner, entry)
            if registered is not None:
                migrator.assign_tool(registered, self.agent.name)
        self.praval_agent._registry_tools[name] = entry["function"]  # its close() unregisters it

    def add_tool(self, tool: AgentTool) -> None:
        """Give the agent a tool by its name, or a tool or function that is registered first; see `Agent.add_tool`."""
        self.agent.add_tool(tool)

    def list_tools(self) -> list[str]:
        """Return the declared names of the tools that the agent may call now."""
        return list(self.names())

    def tool_exists(self, name: str) -> bool:
        """Tell whether the agent may call a tool of this name now."""
        return name in self.names()

    def remove_tool(self, name: str) -> bool:
        """Take a tool from the agent and tell whether the agent could call it before."""
        return bool(self.registry.remove_tool_from_agent(self.names().get(name, name), self.agent.name))


def _get_extra_fields(tool: AnyTool) -> dict[str, object]:
    registration = get_registration(tool)
    entry = None if registration is None else registration.entry
    if entry is None:
        return {}
    with activate_tool_frame(tool.name):  # its class may have code of its own
        return {field: entry[field] for field in _EXTRA_FIELDS if field in entry}


class AgentToolEntries(MutableMapping[str, dict[str, Any]]):
    """An attached agent's `tools`: the entries of what it may call now, under the names they were declared with."""

    def __init__(self, tools: AgentTools) -> None:
        self._tools = tools
        self.written: dict[str, Any] = {}
        self.deleted: set[str] = set()

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools.names())

    def __len__(self) -> int:
        return len(self._tools.names())

    def __getitem__(self, name: str) -> dict[str, Any]:
        entries = self._tools.entries((self._tools.names()[name],))
        if not entries:
            raise KeyError(name)
        return entries[0]

    def values(self) -> ValuesView[dict[str, Any]]:
        """Return the entries of one moment: a tool may be removed while they are iterated."""
        return self._snapshot_entries().values()

    def items(self) -> ItemsView[str, dict[str, Any]]:
        """Return names and entries of one moment."""
        return self._snapshot_entries().items()

    def _snapshot_entries(self) -> dict[str, dict[str, Any]]:
        names = {to_wire_name(registered): name for name, registered in self._tools.names().items()}
        entries = {entry["name"]: entry for entry in self._tools.entries()}
        return {name: entries[wire_name] for wire_name, name in names.items() if wire_name in entries}

    def __setitem__(self, name: str, entry: dict[str, Any]) -> None:
        if not isinstance(entry, Mapping) or not callable(entry.get("function")):
            raise ToolUsageError(f"An entry of an agent's tools has a 'function'; {name!r} got {entry!r}.")
        name = to_plain_key(name)
        self._tools.declare_tool(name, entry)
        self.written[name] = entry
        self.deleted.discard(name)

    def __delitem__(self, name: str) -> None:
        name = to_plain_key(name)
        if not self._tools.tool_exists(name):
            raise KeyError(name)
        self._tools.remove_tool(name)
        self.written.pop(name, None)
        self.deleted.add(name)

    def __repr__(self) -> str:
        return f"<tools of {self._tools.agent.name!r}: {', '.join(self) or 'none'}>"
