"""Registers, replaces and removes the tools of another party as its latest listing says: all changes or none."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Generic, Protocol, TypeVar

from attrs import define, field

from praval_tools.access.commands import require_operator
from praval_tools.access.problems import RegistryProblem
from praval_tools.access.withdrawals import plan_withdrawal
from praval_tools.errors import DuplicateToolError, ToolDefinitionError, ToolUsageError
from praval_tools.execution.context import resolve_actor
from praval_tools.execution.protocols import ToolSource
from praval_tools.forks import ForkSafeLock
from praval_tools.misuse import describe_unknown_keyword
from praval_tools.names import shorten_repr
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.tool import AnyTool

DEFINITION_CHANGED: Final = "definition changed"
"""The reason for which a pinned tool is disabled whose definition is another one now."""

_EFFECTS: Final = ("read_only", "destructive", "idempotent", "open_world")


class ForeignDefinition(Protocol):
    """A tool as another party defines it."""

    @property
    def name(self) -> str:
        """Its name here."""
        ...

    @property
    def remote_name(self) -> str:
        """What it is there."""
        ...

    @property
    def description(self) -> str:
        """What a model reads."""
        ...

    @property
    def parameters(self) -> JsonSchema:
        """The JSON Schema of its arguments."""
        ...

    @property
    def result_schema(self) -> JsonSchema | None:
        """That of its result, if there is one."""
        ...

    @property
    def effects(self) -> Mapping[str, bool]:
        """What it says of its effects, as fields of `ToolMetadata`."""
        ...

    @property
    def digest(self) -> str:
        """What is equal exactly where the whole definition is."""
        ...


D = TypeVar("D", bound=ForeignDefinition)


@define
class Listing(Generic[D]):
    """
    What another party lists.

    Args:
        definitions: The tools that can be used, by their names here.
        problems: What is wrong with the others, and with some of these.
    """

    definitions: dict[str, D] = field(factory=dict)
    problems: list[str] = field(factory=list)


@define(eq=False)
class ToolChanges(Generic[D]):
    """
    The tools of one source in a registry.

    Args:
        registry: The registry.
        source_name: What the source is called there.
        make_tool: Makes a tool of a definition, which knows nothing of its effects yet.
        get_fields: Gives the fields of `ToolMetadata` that the operator sets for a definition, whatever that says.
        kind: What messages call the source.
        problem_code: The code of problems with single tools.
        pins_all: Each tool is pinned to the definition that it has first.
        pins: The fingerprints of pinned tools, by name.
        definitions: What the party lists, by the names here.
        held_back: The new definitions of pinned tools, which wait until the operator accepts them.
        changed: How the definitions of other tools changed, until the operator accepts that.
        is_closed: Whether its tools were taken out for good; a listing that comes later changes nothing.
    """

    registry: ToolRegistry
    source_name: str
    make_tool: Callable[[D], AnyTool]
    get_fields: Callable[[D], Mapping[str, object]]
    kind: str
    problem_code: str
    pins_all: bool = False
    pins: dict[str, str] = field(factory=dict)
    definitions: dict[str, D] = field(factory=dict)
    held_back: dict[str, D] = field(factory=dict)
    changed: dict[str, str] = field(factory=dict)
    is_closed: bool = False
    _implementations: dict[str, ToolImplementation] = field(factory=dict)
    _problems: list[RegistryProblem] = field(factory=list)
    _lock: ForkSafeLock = field(factory=ForkSafeLock)

    def apply(self, listing: Listing[D]) -> None:
        """Take *listing* over, in the name of the operator."""
        with self._lock, self.registry.as_operator():
            if self.is_closed:
                return
            problems = [self._make_problem(self.source_name, text) for text in listing.problems]
            changed = {name: new for name, new in listing.definitions.items() if self._has_changed(name, new)}
            tools = self._make_tools(changed, problems)
            before = dict(self.definitions), dict(self.held_back), dict(self.changed), dict(self.pins)
            implementations = dict(self._implementations)
            try:
                with self.registry.change():
                    for name in [name for name in self.definitions if name not in listing.definitions]:
                        self._remove_tool(name)
                    for name, tool in tools.items():
                        self._apply_definition(changed[name], tool, problems)
            except BaseException:
                self.definitions, self.held_back, self.changed, self.pins = before
                self._implementations = implementations
                raise
            self._problems = problems

    def _has_changed(self, name: str, new: D) -> bool:
        known = self.held_back.get(name) or self.definitions.get(name)
        return known is None or known.digest != new.digest

    def _make_tools(
        self, definitions: Mapping[str, D], problems: list[RegistryProblem]
    ) -> dict[str, AnyTool]:
        """Make the tools outside of the change, which others wait for."""
        tools = {}
        for name, definition in definitions.items():
            try:
                tools[name] = self._make_tool(definition)
            except ToolDefinitionError as error:
                problems.append(self._make_problem(name, f"It is left out: {error}"))
        return tools

    def _make_tool(self, definition: D) -> AnyTool:
        """Make a tool, to whose whole definition approvals are bound: its fingerprint is that of what callers see."""
        tool = self.make_tool(definition).with_metadata(**self._get_metadata(definition))
        tool.implementation.definition_digest = definition.digest
        return tool

    def _get_metadata(self, definition: D) -> dict[str, object]:
        """Return what a definition says of its effects, and what the operator sets instead."""
        return {**definition.effects, **self.get_fields(definition)}

    def _apply_definition(self, definition: D, tool: AnyTool, problems: list[RegistryProblem]) -> None:
        name, old = definition.name, self.definitions.get(definition.name)
        if old is not None and not self._is_registered(name):
            self.definitions[name] = definition
            return
        pin = self.pins.get(name)
        warnings = "" if old is None else self._describe_warnings(old, definition)
        if pin is not None and (pin != tool.fingerprint or warnings):
            self._disable_pinned_tool(definition, tool, problems)
            return
        if pin is not None and old is not None and old is not self.held_back.get(name):
            self._enable_held_tool(name)  # what is registered is what it is pinned to, with its title and hints
            return
        if not self._register_tool(definition, tool, problems):
            if old is not None:  # what is registered is not what would be done
                self._disable_pinned_tool(definition, tool, problems)
            return
        if name in self.held_back:
            self._enable_held_tool(name)
        elif old is not None and (change := describe_change(old, definition) or warnings):
            self.changed[name] = change
        if self.pins_all:
            self.pins.setdefault(name, tool.fingerprint)

    def _describe_warnings(self, old: D, new: D) -> str:
        """Return what *new* says of its effects that *old* did not; a party is taken at its word to warn."""
        before, after = self._get_metadata(old), self._get_metadata(new)
        names = [name for name in _EFFECTS if after.get(name) not in (None, before.get(name))]
        return f"it says {', '.join(f'{name}={after[name]}' for name in names)}" if names else ""

    def _register_tool(self, definition: D, tool: AnyTool, problems: list[RegistryProblem]) -> bool:
        name = definition.name
        try:
            self.registry.register_tool(tool, replace=name in self.definitions)
        except (DuplicateToolError, ToolUsageError) as error:  # the name is taken, or the registry frozen
            problems.append(self._make_problem(name, f"It is left out: {error}"))
            return False
        self.definitions[name], self._implementations[name] = definition, tool.implementation
        return True

    def _is_registered(self, name: str) -> bool:
        """Tell whether the tool of this name is the source's: the host may have put its own in that place, or none."""
        tool = self.registry.get_tool(name)
        return tool is not None and tool.implementation is self._implementations.get(name)

    def _disable_pinned_tool(
        self, definition: D, tool: AnyTool, problems: list[RegistryProblem]
    ) -> None:
        """Disable a pinned tool; the registry keeps the definition that it had, if it had one."""
        name = definition.name
        if name not in self.definitions and not self._register_tool(definition, tool, problems):
            return
        self.held_back[name] = definition
        if ("tool", name) not in self.registry.state.disabled:
            self.registry.disable(tool=name, reason=DEFINITION_CHANGED)

    def _enable_held_tool(self, name: str) -> None:
        """Let a tool be called again that was held back; not one that the operator disabled for another reason."""
        self.held_back.pop(name, None)
        if self._is_disabled_by_change(name):
            self.registry.enable(tool=name)

    def _is_disabled_by_change(self, name: str) -> bool:
        records = self.registry.state.disabled.get(("tool", name), ())
        return any(off.reason == DEFINITION_CHANGED for off in records)

    def _remove_tool(self, name: str) -> None:
        if self._is_registered(name):
            self._enable_held_tool(name)
            reason = f"{self.kind} {self.source_name!r} does not list it any more"
            self.registry.unregister_tool(name, reason=reason)
        self.held_back.pop(name, None)
        del self.definitions[name]
        self.changed.pop(name, None)

    @property
    def tools(self) -> list[str]:
        """The names of the registered tools."""
        return list(filter(self._is_registered, list(self.definitions)))

    @property
    def fingerprints(self) -> dict[str, str]:
        """The fingerprint of each registered tool, by name."""
        tools = {name: self.registry.get_tool(name) for name in self.tools}
        return {name: tool.fingerprint for name, tool in tools.items() if tool is not None}

    def accept(self, name: str) -> None:
        """
        Take the definition over that a tool has now, and let it be called; for the operator.

        Raises:
            ToolUsageError: There is no such tool.
        """
        require_operator(resolve_actor(None, "accept a definition", name), "accept a definition", name)
        if not self._is_registered(name):
            text = f"{self.kind} {self.source_name!r} has no tool {name!r} here; source.tools lists them."
            raise ToolUsageError(text)
        with self._lock, self.registry.as_operator():
            definition = self.held_back.get(name)
            tool = None if definition is None else self._make_tool(definition)
            with self.registry.change():
                if definition is not None and tool is not None:
                    self.registry.register_tool(tool, replace=True)
                self._enable_held_tool(name)
            if definition is not None and tool is not None:
                self.definitions[name], self._implementations[name] = definition, tool.implementation
                self.pins[name] = tool.fingerprint
            self.changed.pop(name, None)

    def close(self, source: ToolSource) -> None:
        """
        Take all tools of *source* out of a registry that goes on; a listing that comes later changes nothing.

        Other programs may have them: their grants wait in the journal, and what is held back stays disabled.
        """
        runtime = get_runtime(self.registry)
        if runtime.sources.get(self.source_name) is source and not runtime.access_store.closed:
            del runtime.sources[self.source_name]
            self._remove_all()
        else:
            self.is_closed = True  # another source has its name, or nobody needs its tools any more

    def _remove_all(self) -> None:
        reason = f"{self.kind} {self.source_name!r} was closed"
        with self._lock:
            self.is_closed, names = True, self.tools
            get_runtime(self.registry).access_store.commit(lambda state: plan_withdrawal(state, names, reason))
            for known in (self.definitions, self.held_back, self.changed):
                known.clear()

    def list_problems(self) -> list[RegistryProblem]:
        """Return what is wrong with the tools: left out, changed, held back."""
        accept = "Look at it, and accept it: source.accept({name!r})."
        problems = list(self._problems)
        for name in self.tools:
            definition = self.definitions[name]
            if name in self.held_back or self._is_disabled_by_change(name):
                held = self.held_back.get(name, definition)
                change = describe_change(definition, held) or self._describe_warnings(definition, held)
                change = change or "not that of its pin"
                text = f"Tool {name!r} is held back: its {self._noun} {self.source_name!r} gives it another definition"
                problems.append(
                    RegistryProblem("definition-changed", name, f"{text} ({change}).", accept.format(name=name))
                )
            elif name in self.changed:
                text = f"{self.kind} {self.source_name!r} changed the definition of tool {name!r}"
                text = f"{text}: {self.changed[name]}."
                problems.append(RegistryProblem("definition-changed", name, text, accept.format(name=name)))
        return problems

    @property
    def _noun(self) -> str:
        """The last word of what messages call the source: `server`."""
        return self.kind.rpartition(" ")[2]

    def _make_problem(self, subject: str, text: str) -> RegistryProblem:
        message = f"{self.kind} {self.source_name!r}: {text}"
        return RegistryProblem(self.problem_code, subject, message, f"Have the {self._noun} corrected, or leave it so.")


def check_options(function: str, known: type, options: Mapping[str, object], *, numbers: Iterable[str]) -> None:
    """
    Check the keywords with which a source is registered.

    Args:
        function: What was called, for messages.
        known: The class of the options, a `TypedDict`.
        options: Those that were passed.
        numbers: Which of them are positive numbers.

    Raises:
        TypeError: One is unknown.
        ToolUsageError: One of *numbers* is none.
    """
    if unknown := options.keys() - known.__annotations__.keys():
        raise TypeError(describe_unknown_keyword(function, min(unknown), known.__annotations__))
    for name in numbers:
        number = options.get(name, 1)
        if not isinstance(number, int | float) or isinstance(number, bool) or not 0 < number < math.inf:
            raise ToolUsageError(f"{function} takes a positive number as {name}=, not {number!r}.")


def describe_change(old: ForeignDefinition, new: ForeignDefinition) -> str:
    """Return in a few words how a definition changed; empty where nothing did that callers depend on."""
    changes = []
    if old.remote_name != new.remote_name:
        changes.append(f"it is {shorten_repr(new.remote_name)} there")
    if old.description != new.description:
        changes.append(f"description {shorten_repr(new.description)}")
    before, after = (definition.parameters.get("properties", {}) for definition in (old, new))
    for title, names in (
        ("without", before.keys() - after.keys()),
        ("with", after.keys() - before.keys()),
        ("another schema of", {name for name in before.keys() & after.keys() if before[name] != after[name]}),
    ):
        if names:
            changes.append(f"{title} {', '.join(map(shorten_repr, sorted(names)))}")
    if not changes and old.parameters != new.parameters:
        changes.append("other rules for its arguments")
    if old.result_schema is not None and old.result_schema != new.result_schema:
        changes.append("another result")
    return "; ".join(changes)
