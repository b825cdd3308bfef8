"""The catalogue of a registry: registers, finds, replaces, disables and configures tools."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, Self, Unpack, get_args
from weakref import ref

from msgspec.structs import replace

from praval_tools.access import commands
from praval_tools.access.permissions import SwitchTarget
from praval_tools.access.queries import compute_stats, find_tool, search_tools, select_tools
from praval_tools.access.state import AccessState
from praval_tools.access.store import StateStore
from praval_tools.clock import Clock
from praval_tools.errors import ToolUsageError
from praval_tools.execution.context import (
    get_current_principal,
    list_change_delegators,
    resolve_actor,
    resolve_agent,
)
from praval_tools.misuse import explain_misuse_and_take_plain_arguments
from praval_tools.names import (
    OPERATOR,
    HasName,
    format_count,
    get_class_name,
    get_collision_keys,
    get_name,
    has_type,
    is_valid_agent_name,
)
from praval_tools.registry.access_changes import AccessChanges
from praval_tools.registry.decorator_arguments import ToolDecoratorFactory, make_tool_or_decorator
from praval_tools.registry.export_cache import has_matching_tags, to_tag_set
from praval_tools.search.finder import ToolFinder
from praval_tools.tools.frames import get_current_actor
from praval_tools.tools.from_object import make_tool, make_tools_from_object
from praval_tools.tools.implementation import ToolDefinition
from praval_tools.tools.plain_tool import find_class_problem, with_declarer
from praval_tools.tools.source import Source
from praval_tools.tools.tool import AnyTool, Tool

if TYPE_CHECKING:
    from praval_tools.tools.metadata import ToolFields

Collisions = Literal["error", "rename", "keep", "replace"]
"""What happens where another tool has the name of one that comes in."""
COLLISIONS: Final[tuple[str, ...]] = get_args(Collisions)


@explain_misuse_and_take_plain_arguments
class ToolCatalogue(ABC):
    """
    The tools of a registry, without agents, calls and journal; `ToolRegistry` adds these.

    Args:
        access_store: Holds the tools, as a part of the state.
        clock: Time and ids for changes.
    """

    def __init__(self, access_store: StateStore, clock: Clock) -> None:
        self.name = access_store.name
        self._access_store, self._clock = access_store, clock
        self._changes = AccessChanges(access_store, clock)
        self._finder = ToolFinder(access_store, clock)

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<{type(self).__name__}{name}: {format_count(len(self), 'tool')}>"

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        return len(self._current_state.tools)

    def __iter__(self) -> Iterator[AnyTool]:
        return iter(self.list_all_tools())

    def __contains__(self, tool: object) -> bool:
        registered = self.get_tool(get_name(tool)) if has_type(tool, (str, Tool)) else None
        return registered is not None and (
            not has_type(tool, Tool) or registered.implementation is tool.implementation
        )

    @property
    def state(self) -> AccessState:
        """The present state: immutable, equal to the replay of all events."""
        return self._access_store.state

    @property
    def _current_state(self) -> AccessState:
        """The present state, other processes' changes included; inside `change()`, with what was changed there."""
        return self._access_store.get_fresh_state()

    def register_tool(self, tool: AnyTool, *, replace: bool = False, by: object = None, reason: str = "") -> None:
        """
        Register *tool*; all or nothing.

        Raises:
            DuplicateToolError: The name, or one whose wire name would clash, is taken; `replace=True` replaces
                in place, another owner's tool only by the operator.
            TypeError: Not a Tool; or, where code of an agent or plugin registers it, one of a class of its own.
        """
        _require_tool(tool)
        if (declarer := get_current_actor()) != OPERATOR and (problem := find_class_problem(tool)):
            raise TypeError(f"{declarer!r} registers {problem}.")
        registered, actor = tool, resolve_actor(by, "register", tool.name)
        if tool.metadata.owned_by is None and list_change_delegators() and is_valid_agent_name(actor):
            registered = tool.with_metadata(owned_by=actor)  # those for whom it acts must be entitled to that, too
        if declarer != OPERATOR:
            registered = with_declarer(registered, declarer)
        self._changes.commit(
            "register",
            by,
            lambda state, actor: commands.plan_registration(state, registered, actor, replace=replace, reason=reason),
            tool.name,
        )
        tool.implementation.find_store = ref(self._access_store)

    def register(
        self,
        tool: AnyTool | str,
        function: Callable[..., Any] | None = None,
        definition: ToolDefinition | None = None,
    ) -> None:
        """
        Register a tool, or a function under a name and definition (the PyWorkflow form).

        Raises:
            ToolUsageError: Something comes beside a tool; each tool is registered by a call of its own.
        """
        if not isinstance(tool, str) and (function is not None or definition is not None):
            raise ToolUsageError("register() takes one tool; call it once for each.")
        self.register_tool(make_tool(tool, function, definition) if isinstance(tool, str) else tool)

    @property
    def tool(self) -> ToolDecoratorFactory:
        """Declares a tool in this registry; takes what `praval_tools.tool` takes."""
        return lambda *args, **metadata: make_tool_or_decorator(args, metadata, self._register_declared)

    def _register_declared(self, tool: AnyTool, registry: ToolCatalogue | None, replace: bool) -> None:
        tool.implementation.discoverable = False  # it belongs here, wherever discovery finds it
        (self if registry is None else registry).register_tool(tool, replace=replace)

    def register_object(
        self,
        source: Any,
        /,
        namespace: bool | str = True,
        *,
        include: Iterable[str] = (),
        exclude: Iterable[str] = (),
        strict: bool = True,
        **metadata: Unpack[ToolFields],
    ) -> list[AnyTool]:
        """
        Register the public methods of an object or class as tools, all or nothing.

        A class is built without arguments, unless its methods need no object.

        Args:
            source: The object, or its class.
            namespace: Prefix of the names; True: made of the class's name; False: none.
            include: Only these methods; empty: all but those in *exclude*.
            strict: False: a missing hint means unconstrained, for classes that others wrote.
            metadata: Fields of `ToolMetadata` for all of them.

        Raises:
            ToolDefinitionError: With every problem of every method.
            ToolUsageError: The class cannot be built without arguments, or a name is not a method.
        """
        tools = make_tools_from_object(source, namespace, set(include), set(exclude), strict, metadata)
        with self._access_store.change():
            for tool in tools:
                self.register_tool(tool)
        return tools

    def unregister_tool(self, name: str | AnyTool, *, by: object = None, reason: str = "") -> bool:
        """Take a tool out, end its grants, and tell whether there was such a tool."""
        return self._changes.change_tool("unregister", name, by, reason, commands.plan_unregistration)

    def get_tool(self, name: str) -> AnyTool | None:
        """Return the tool of this name as it is now, or None."""
        return find_tool(self._current_state, get_name(name))

    def list_all_tools(self) -> list[AnyTool]:
        """Return every tool, in registration order."""
        return select_tools(state := self._current_state, state.tools)

    def get_tools_by_category(self, category: str) -> list[AnyTool]:
        """Return the tools of a category, in registration order."""
        return select_tools(state := self._current_state, state.get_tools_by_label("category", category))

    def get_shared_tools(self) -> list[AnyTool]:
        """Return the shared tools, in registration order."""
        return select_tools(state := self._current_state, state.get_tools_by_label("shared", ""))

    def search_tools(
        self,
        name_pattern: str | None = None,
        category: str | None = None,
        owned_by: str | HasName | None = None,
        shared_only: bool = False,
        tags: Iterable[str] | None = None,
    ) -> list[AnyTool]:
        """Return the tools that meet every condition; any of *tags* suffices, *name_pattern* is a part of the name."""
        owner = get_name(owned_by) if owned_by else None
        return search_tools(self._current_state, name_pattern, category, owner, shared_only, tags)

    def search(
        self,
        words: str,
        agent: str | HasName | None = None,
        limit: int = 10,
        *,
        tags: Iterable[str] | None = None,
        exclude_tags: Iterable[str] | None = None,
    ) -> list[AnyTool]:
        """
        Return the tools that a question or a few words fit best, the best first, among those that an agent may call.

        Name, description, parameters and tags count, by BM25 over these tools alone: others leave no trace.
        The first search of an agent makes its index, later ones bring it up to date; needs SQLite with FTS5.

        Args:
            words: As a person or a model says it; forms of a word, parts of an identifier, Chinese, Japanese, … fit.
            agent: None: who is running; the operator finds every tool that is not disabled.
            limit: Most tools.
            tags: Only tools with one of these.
            exclude_tags: No tools with one of these.

        Raises:
            ToolUsageError: *words* is not a text, *limit* not a whole number from 1 on, or SQLite has no FTS5.
        """
        principal = get_current_principal() if agent is None else resolve_agent(agent)
        wanted, unwanted = to_tag_set(tags), to_tag_set(exclude_tags)
        return self._finder.find(principal, words, limit, lambda tool: has_matching_tags(tool, wanted, unwanted))

    def get_tool_definitions(self) -> list[ToolDefinition]:
        """Return name, description and schema of every tool."""
        return [tool.definition for tool in self.list_all_tools()]

    def get_tool_definitions_dict(self) -> list[dict[str, Any]]:
        """Return name, description and schema of every tool as dicts."""
        return [definition.to_dict() for definition in self.get_tool_definitions()]

    def disable(
        self, name: object = None, *, by: object = None, reason: str = "", **target: Unpack[SwitchTarget]
    ) -> None:
        """Switch off a tool, namespace, category or tag, for everybody."""
        self._changes.switch(False, name, by, reason, target)

    def enable(
        self, name: object = None, *, by: object = None, reason: str = "", **target: Unpack[SwitchTarget]
    ) -> None:
        """Switch a tool, namespace, category or tag on again."""
        self._changes.switch(True, name, by, reason, target)

    def disable_by_tags(
        self, *, any: Collection[str] = (), all: Collection[str] = (), by: object = None, reason: str = ""
    ) -> list[str]:
        """Switch off each tool that has one of the tags *any*, and every one of *all*; returns the tools' names."""
        return self._changes.disable_by_tags(any, all, by, reason)

    def configure(
        self, tool: object = None, *, namespace: str | None = None, by: object = None, reason: str = "",
        **changes: Unpack[ToolFields],
    ) -> None:  # fmt: skip
        """
        Override fields of a tool's metadata, for tools that others wrote; an unknown field is an error.

        Args:
            tool: The tool.
            namespace: Instead of one tool, each that is in this namespace now; all of them or none.
        """
        if (tool is None) == (namespace is None):
            raise ToolUsageError("configure() takes one tool, or namespace=…: configure('add', timeout=5).")
        if namespace is None:
            self._changes.change_tool("configure", tool, by, reason, commands.plan_configuration, changes)
        else:
            self._changes.configure_namespace(namespace, changes, by, reason)

    def get_registry_stats(self) -> dict[str, Any]:
        """Return the counts that Praval's registry gives."""
        return compute_stats(self._current_state)

    def replace_source(self, source: str, tools: Iterable[AnyTool], *, by: object = None) -> None:
        """
        Swap all tools of a source (a distribution, a file) for *tools* at once; no call sees a mixture.

        A tool that does not name *source* as its source is registered as one that does, so that the next swap finds it.

        Raises:
            DuplicateToolError: A name is taken by a tool from another source.
            TypeError: One is not a Tool.
        """
        tools = list(tools)
        for tool in tools:
            _require_tool(tool)
        new = {tool.name: tool if _is_from(source, tool) else _with_source(source, tool) for tool in tools}
        with self._access_store.change():
            old = [tool.name for tool in self.list_all_tools() if _is_from(source, tool)]
            for name in old:
                if name not in new:
                    self.unregister_tool(name, by=by, reason=f"source {source!r} was replaced")
            for name, tool in new.items():
                self.register_tool(tool, replace=name in old, by=by)

    # ── other registries ─────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def _create_sibling(self, name: str, state: AccessState | None = None) -> Self:
        """Return a registry of this one's class and options, which has no journal; without *state* it is empty."""

    def fork(self) -> Self:
        """Return a registry of its own with the same state, for tests and what-if; costs nothing; the operator's."""
        commands.require_operator(resolve_actor(None, "fork the registry"), "fork the registry")
        return self._create_sibling(f"{self.name} (fork)".lstrip(), self._current_state)

    def merge(
        self, other: ToolCatalogue, *, collisions: Collisions = "error", by: object = None, reason: str = ""
    ) -> list[AnyTool]:
        """
        Register the tools that *other* has now; it keeps them. All or nothing; done twice, nothing is doubled.

        What refuses comes along: tools that are disabled there, blocks, removals; from agents that are retired there,
        and not declared here, they are removed. What permits does not: a tool is shared here only if its declaration
        shares it, and no grant and no agent comes.

        Args:
            other: Another registry.
            collisions: Where another tool has the name: `error`, unless its module ran again, and it replaces itself;
                `keep` this registry's tool; `replace` it, and end its grants; `rename` the one that comes, to the name
                of *other* as its namespace.

        Returns:
            The tools that came, as they are here.

        Raises:
            DuplicateToolError: Two tools have one name, and *collisions* is `error`.
            ToolUsageError: A tool is that of an MCP server, whose changes *other* alone would see.
        """
        commands.require_operator(resolve_actor(by, "merge registries"), "merge registries")
        if not isinstance(other, ToolCatalogue):
            raise TypeError(f"merge() takes another ToolRegistry, got {type(other).__name__}.")
        if collisions not in COLLISIONS:
            raise ToolUsageError(f"collisions={collisions!r} is none of {', '.join(map(repr, COLLISIONS))}.")
        there, retired = other._current_state, _list_retired_agents(other)
        came = list[str]()
        with self._access_store.change():
            for tool in select_tools(there, there.tools):
                arriving, holder = tool, self._find_holder(tool)
                if collisions == "rename" and _is_another(holder, tool):
                    arriving = _rename(tool, other.name)
                    holder = self._find_holder(arriving)
                if holder is not None and (collisions == "keep" or not _is_another(holder, tool)):
                    continue
                if holder is not None and collisions == "replace":
                    self.unregister_tool(holder, by=by, reason=reason)
                _take_over(self, there, retired, tool, arriving, by, reason)
                came.append(arriving.name)
        return select_tools(self._current_state, came)

    def spinoff(self, namespace: str, *, by: object = None, reason: str = "") -> Self:
        """
        Move the tools of a namespace into a new registry, which is named after it; all or nothing.

        They keep their names, the prefix included. What refuses goes along, and what permits does not, as in `merge`;
        grants of them end here. The new registry has the options of this one, and no journal.

        Raises:
            UnknownToolError: No tool is in this namespace.
            ToolUsageError: A tool is that of an MCP server, whose changes this registry alone would see.
        """
        commands.require_operator(resolve_actor(by, "spin off a namespace"), "spin off a namespace")
        there, retired = self._current_state, _list_retired_agents(self)
        commands.resolve_switch_target(there, None, {"namespace": namespace}, include_disabled=False)
        moved = self._create_sibling(namespace)
        with self._access_store.change():
            for tool in select_tools(there, there.get_tools_by_label("namespace", namespace)):
                _take_over(moved, there, retired, tool, tool, by, reason)
                self.unregister_tool(tool, by=by, reason=reason)
        return moved

    def _find_holder(self, tool: AnyTool) -> AnyTool | None:
        """Return the tool of this registry that has the name of *tool*, or one that providers take for the same."""
        names = map(self._current_state.names_by_wire_key.get, get_collision_keys(tool.name))
        return next((self.get_tool(name) for name in names if name is not None), None)


def _is_another(holder: AnyTool | None, tool: AnyTool) -> bool:
    return holder is not None and holder.implementation is not tool.implementation


def _rename(tool: AnyTool, namespace: str) -> AnyTool:
    if not namespace:
        raise ToolUsageError("collisions='rename' needs the other registry's name: ToolRegistry(name='shop').")
    return tool.with_namespace(namespace, force=True)


def _list_retired_agents(registry: ToolCatalogue) -> list[str]:
    return [name for name, profile in registry._current_state.profiles.items() if profile.retired]


def _take_over(
    target: ToolCatalogue, there: AccessState, retired: list[str], tool: AnyTool, arriving: AnyTool,
    by: object, reason: str,
) -> None:  # fmt: skip
    """Register *tool* of another registry in *target*, as *arriving*, with what refuses it *there*."""
    _refuse_mcp_tool(tool)
    declared = there.tools[tool.name].declared_metadata
    is_shared = tool.metadata.shared and declared is not None and declared.shared
    target.register_tool(arriving.with_metadata(shared=is_shared), by=by, reason=reason)
    if (off := there.find_disabled_record(tool)) is not None:
        target.disable(tool=arriving.name, by=by, reason=off.reason)
    for agent in there.agents_by_tool.get(tool.name) or ():
        access = there.get_access(agent, tool.name)
        if access.removed:
            target._changes.remove(arriving.name, agent, by, reason)
        for block in access.blocks:
            target._changes.block(arriving.name, agent, by, block.reason)
    for agent in retired:
        if not target._current_state.get_profile(agent).declared:  # else it is an agent of this registry
            target._changes.remove(arriving.name, agent, by, reason)


def _refuse_mcp_tool(tool: AnyTool) -> None:
    if tool.metadata.source is not None and tool.metadata.source.kind == "mcp":
        text = f"Tool {tool.name!r} is that of an MCP server, which one registry watches"
        raise ToolUsageError(f"{text}: call register_mcp of the registry that is to have it.")


def _require_tool(tool: object) -> None:
    if not has_type(tool, Tool):
        raise TypeError(f"Expected Tool object, got {get_class_name(type(tool))}; make one with @tool or Tool(…).")


def _is_from(source: str, tool: AnyTool) -> bool:
    origin = tool.metadata.source  # code of an agent can say that its tools are of any source
    return origin is not None and not origin.declared_by and source in (origin.distribution, origin.file)


def _with_source(source: str, tool: AnyTool) -> AnyTool:
    return tool.with_metadata(source=replace(tool.metadata.source or Source(), distribution=source))
