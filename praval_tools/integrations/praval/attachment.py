"""An agent of Praval's that calls its tools through a registry of `praval_tools`."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Self

from praval_tools.compat.praval.conversion import get_registration, refresh_praval_tool, to_agent_name
from praval_tools.compat.praval.registry import get_view
from praval_tools.errors import ToolUsageError
from praval_tools.integrations.praval.entries import AgentToolEntries, LiveList, ToolEntry, build_entry_function
from praval_tools.integrations.praval.installation import get_installed_view
from praval_tools.integrations.praval.method_patches import patch_agent
from praval_tools.integrations.praval.migration import (
    Collisions,
    Migration,
    ReplaceOwn,
    ToolMigrator,
    build_entry_tool,
    get_praval_agent,
    migrate_agent,
)  # fmt: skip
from praval_tools.integrations.praval.praval_modules import import_praval_module
from praval_tools.names import fold_name, to_wire_name
from praval_tools.registry import default
from praval_tools.registry.agents import Agent
from praval_tools.registry.registry import ToolRegistry
from praval_tools.tools.approval import Allow
from praval_tools.tools.call import Outcome, ToolCall, ToolResult
from praval_tools.tools.tool import Tool

_ATTACHMENT_ATTRIBUTE: Final = "_praval_tools_attachment"
"""Where an agent keeps what ties it to a registry."""

_EXTRA_KEYS: Final = ("strict", "metadata", "async_only")
"""What Praval's own entries may say besides."""


class Attachment:
    """
    The tie between an agent of Praval's and a registry; leaving it as a `with` block undoes it.

    Args:
        theirs: Praval's agent.
        agent: The agent here.
        collisions: What happens where a tool that the agent declares has the name of another's.
    """

    def __init__(self, theirs: Any, agent: Agent, collisions: Collisions) -> None:
        self.theirs, self.agent, self.registry = theirs, agent, agent.registry
        self.migration = Migration((), ())
        self._collisions, self._view = collisions, get_view(agent.registry)
        self._result_class = import_praval_module("praval.models").ToolResult
        self._restore_methods: Callable[[], None] | None = None
        self._original_tools: dict[str, Any] = theirs.tools

    def __repr__(self) -> str:
        return f"<Attachment of Praval's {self.theirs.name!r} to {self.registry.name!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.detach()

    # ── what the agent has ───────────────────────────────────────────────────────────────────────

    def names(self) -> dict[str, str]:
        """Return the tools that the agent may call now: the declared name of each, and the one here."""
        return {_get_declared_name(self.registry.get_tool(name)) or name: name for name in self.agent.tools}

    def entries(self, only: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """Return what Praval is told of the tools that may be called now, all of them or those *only*."""
        wanted = [name for name in (self.agent.tools if only is None else only) if name in self.agent.tools]
        schemas = {one["name"]: one for one in self.agent.schemas("anthropic")} if wanted else {}
        made = [self._build_entry(name, schemas.get(to_wire_name(name)), None, approved=False) for name in wanted]
        return [one for one in made if one is not None]

    def entry_called(self, called: str, *, awaited: bool, approved: bool) -> ToolEntry:
        """
        Return the entry of a tool as a model called it, allowed or not: its function decides, and records.

        Args:
            called: The name that the model sent.
            awaited: Whether the function is to be awaited.
            approved: Whether a person says yes before Praval runs the function of a tool that needs it.
        """
        name = self.meant(called)
        made = self._build_entry(
            name, {"name": called, "description": "", "input_schema": {}}, awaited, approved=approved
        )
        assert made is not None  # there is a schema
        return made

    def meant(self, called: str) -> str:
        """Return the name of the tool that goes over the wire as *called*; else *called* itself."""
        holder = self.registry.state.names_by_wire_key.get(fold_name(called))
        return holder if holder is not None and called in (holder, to_wire_name(holder)) else called

    def _build_entry(
        self, name: str, schema: Mapping[str, Any] | None, awaited: bool | None, *, approved: bool
    ) -> ToolEntry | None:
        if schema is None:  # taken away since the names were read
            return None
        tool = self.registry.get_tool(name)
        asks = tool is not None and self._needs_praval_approval(tool) and name in self.agent.tools
        more = {} if tool is None else _get_extra_fields(tool)
        return ToolEntry(
            name=schema["name"], description=schema["description"], parameters=schema["input_schema"],
            function=self._build_function(name, schema["name"], tool, awaited, approved=approved and asks),
            requires_approval=asks,
            risk_level="low" if tool is None else tool.metadata.risk_level,
            approval_reason="" if tool is None else tool.metadata.approval_reason,
            **more,
        )  # fmt: skip

    def _needs_praval_approval(self, tool: Tool[..., Any]) -> bool:
        """Tell whether Praval asks a person; where it cannot, and the registry has somebody, that one is asked."""
        mark = get_registration(tool)
        said = (
            tool.metadata if mark is None else refresh_praval_tool(tool, mark).metadata
        )  # Praval's can be changed by anyone
        needed = tool.metadata.requires_approval or said.requires_approval
        return bool(needed) and (self.theirs._hitl_enabled or self.registry.approvals.handler is None)

    def _build_function(
        self, name: str, wire: str, tool: Tool[..., Any] | None, awaited: bool | None, *, approved: bool
    ) -> Callable[..., Any]:
        signature = None if tool is None else inspect.signature(tool.function)
        if awaited is None:  # what stands in `agent.tools`: values and exceptions, as of any function
            return build_entry_function(
                wire, lambda given: self.agent.call(name, **given), lambda given: self.agent.acall(name, **given),
                signature=signature, awaited=None if tool is None or not tool.is_async else None,
            )  # fmt: skip

        def call(given: dict[str, Any]) -> Any:
            asked = ToolCall(name=name, arguments=given, agent=self.agent.name).with_id()
            result = self.agent.execute(asked)
            return self._to_praval_result(
                self.agent.execute(asked) if self._forward_approval(result, approved) else result
            )

        async def acall(given: dict[str, Any]) -> Any:
            asked = ToolCall(name=name, arguments=given, agent=self.agent.name).with_id()
            result = await self.agent.aexecute(asked)
            return self._to_praval_result(
                await self.agent.aexecute(asked) if self._forward_approval(result, approved) else result
            )

        # sync code in the thread of a loop can wait for an async tool in another thread only, as Praval does
        return build_entry_function(
            wire, call, acall, signature=signature, awaited=awaited or (None if tool and tool.is_async else False)
        )

    def _forward_approval(self, result: ToolResult, approved: bool) -> bool:
        """Hand the yes that a person gave to Praval on to the registry."""
        if not approved or result.outcome is not Outcome.APPROVAL_REQUIRED:
            return False
        with self.registry.as_operator():
            yes = Allow(by="Praval", reason="a person approved the intervention in Praval")
            self.registry.approvals.answer(str(result.tool_call_id), yes)
        return True

    def _to_praval_result(self, result: ToolResult) -> Any:
        if result.success and isinstance(result.result, self._result_class):
            return result.result
        text = result.for_model()
        if result.success:
            return text
        return self._result_class(tool_call_id="", name=result.name, content=f"Error: {text}", is_error=True)

    # ── what the agent declares ──────────────────────────────────────────────────────────────────

    def take(self, name: str, entry: Mapping[str, Any]) -> None:
        """Register what the agent's own `tool` or `add_tool_spec` declares."""
        mover = ToolMigrator(self._view, self._collisions, replace_own="all")
        with self.registry.change():
            here = mover.migrate_tool(build_entry_tool(name, entry, self.theirs.name), self.theirs.name, entry)
            if here is not None:
                mover.assign_tool(here, self.agent.name)
        self.theirs._registry_tools[name] = entry["function"]  # its close() takes it out again

    def drop(self, name: str) -> None:
        """Take a tool from the agent."""
        here = self.names().get(name)
        if here is None:
            raise KeyError(name)
        self.registry.remove_tool_from_agent(here, self.agent.name)

    # ── its beginning and end ────────────────────────────────────────────────────────────────────

    def begin(self, handed: Iterable[str]) -> None:
        """Bring in the agent's tools, and let Praval call through the registry from now on."""
        undo, attached = patch_agent(self, self.theirs), self._view._praval_state.attachments
        try:
            with self.registry.change():
                others = [other.agent.name for one in attached.valuerefs() if (other := one()) is not None]
                again: ReplaceOwn = "none" if self.agent.name in others else "left"
                self.migration = migrate_agent(self._view, self.theirs, self._collisions, handed, replace_own=again)
                attached[id(self)] = self
        except BaseException:
            undo()
            attached.pop(id(self), None)
            raise
        self._restore_methods, self.theirs.tools, self.theirs.__dict__[_ATTACHMENT_ATTRIBUTE] = (
            undo,
            AgentToolEntries(self),
            self,
        )

    def detach(self) -> None:
        """Give the agent its own dictionary back, with what it has declared since; safe twice."""
        undo, self._restore_methods = self._restore_methods, None
        if undo is None:
            return
        undo()
        self.theirs.__dict__.pop(_ATTACHMENT_ATTRIBUTE, None)
        self._view._praval_state.attachments.pop(id(self), None)
        entries = self.theirs.tools
        if isinstance(entries, AgentToolEntries):
            self._original_tools.update(entries.written)
            for name in entries.deleted:
                self._original_tools.pop(name, None)
            self.theirs.tools = self._original_tools

    def live(self, only: tuple[str, ...] | None) -> LiveList:
        """Return the entries of a chat: always those of now."""
        return LiveList(lambda: self.entries(only), only)

    def narrowed(self, options: Any, only: Iterable[str] | None) -> Any:
        """Return the options of a chat with live entries."""
        known = self.names()
        names = None if only is None else tuple(known[one] for one in only)
        return dataclasses.replace(options, tools=self.live(names))


def _get_declared_name(tool: Tool[..., Any] | None) -> str | None:
    return None if tool is None else tool.metadata.extra.get("declared_as")


def _get_extra_fields(tool: Tool[..., Any]) -> dict[str, Any]:
    mark = get_registration(tool)
    entry = (mark.entry if mark is not None else None) or {}
    return {key: entry[key] for key in _EXTRA_KEYS if key in entry}


def attach(
    agent: Any, registry: ToolRegistry | None = None, *, collisions: Collisions = "rename",
    auto_discover_tools: bool = True,
) -> Attachment:  # fmt: skip
    """
    Let an agent of Praval's have exactly the tools that it may call now, and call them through the registry.

    What it holds is brought along and stays its own; from then on the registry decides, before every round of a
    chat what is offered, and at every call what runs. Every call is checked, and journaled with its agent.

    Args:
        agent: An agent, or a function decorated with Praval's `@agent`.
        registry: None: the installed one, else the default one.
        collisions: What happens where a tool of the agent has the name of another's; see `migrate`. What an agent
            of the same name left is replaced.
        auto_discover_tools: As the agent was declared with: False, and what it owns or is shared with everybody
            reaches it only if it holds it already, or is granted.

    Raises:
        MissingExtraError: Praval is not installed.
        TypeError: No agent of Praval's.
        ToolUsageError: It is attached to another registry, or this Praval has not the places to attach to.
    """
    theirs, view = get_praval_agent(agent), get_installed_view()
    if registry is None:
        registry = view.registry if view is not None else default.get_tool_registry()
    with theirs._history_lock:  # its own lock; two threads may attach it at once
        held: Attachment | None = theirs.__dict__.get(_ATTACHMENT_ATTRIBUTE)
        if held is not None and held.registry is registry and not isinstance(theirs.tools, AgentToolEntries):
            held.detach()  # somebody has given it another dictionary, which is brought along now
            held = None
        if held is None:
            return _create_attachment(theirs, registry, collisions, auto_discover_tools)
    if held.registry is registry:
        return held
    raise ToolUsageError(
        f"Praval's agent {theirs.name!r} is attached to registry {held.registry.name!r}; detach() it first.",
        "already-attached",
    )


def _create_attachment(
    theirs: Any, registry: ToolRegistry, collisions: Collisions, auto_discover_tools: bool
) -> Attachment:
    name = to_agent_name(theirs.name)
    if name in registry.agents:
        mine = registry.agent(name)
    else:
        mine = Agent(name, registry=registry, auto_discover_tools=auto_discover_tools)
    made = Attachment(theirs, mine, collisions)
    made.begin(get_view(registry)._praval_state.reported_tools.get(theirs.name, ()))
    return made
