"""`ToolSearch`: a model finds tools by words, and is sent those that it found; in a loop, and in no other requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

import msgspec
from annotated_types import Interval

from praval_tools.access.commands import get_tool_record
from praval_tools.execution.context import SCOPE, get_current_frame
from praval_tools.execution.deps import use_deps
from praval_tools.formats import Format
from praval_tools.formats.deferred_loading import LOADERS, SEARCH_TOOL_NAME, DeferredRequest
from praval_tools.loop.values import ModelRequest
from praval_tools.misuse import explain_misuse
from praval_tools.names import get_name, to_wire_name
from praval_tools.registry.export_cache import has_matching_tags
from praval_tools.registry.registry import ToolRegistry, get_runtime
from praval_tools.registry.toolset import AnyBoundTool, Toolset, export_selected_tools
from praval_tools.tools.call import ToolResult
from praval_tools.tools.context_settings import ContextSetting, use_setting
from praval_tools.tools.plain_managers import plain_manager
from praval_tools.tools.tool import AnyTool, Tool

_MAX_DESCRIPTION_LENGTH: Final = 300


class _Narrowing(msgspec.Struct, frozen=True):
    """The tags of a loop, by which its searches go, too."""

    registry: ToolRegistry
    tags: frozenset[str] | None
    excluded_tags: frozenset[str] | None


_narrowing: Final = ContextSetting[_Narrowing]()


def search_tools(query: str, limit: Annotated[int, Interval(ge=1, le=20)] = 5) -> list[dict[str, str]]:
    """
    Find tools by what they do. You can call those that it returns from your next step on.

    Args:
        query: What a tool must do, in a few words.
        limit: Most tools.
    """
    frame = get_current_frame()
    assert frame is not None, "a tool is called inside a frame"
    registry: ToolRegistry = frame[SCOPE].registry
    narrowing = _narrowing.get()
    if narrowing is None or narrowing.registry is not registry:
        narrowing = _Narrowing(registry, None, None)
    tools = registry.search(query, limit=limit + 1, tags=narrowing.tags, exclude_tags=narrowing.excluded_tags)
    others = [tool for tool in tools if tool.name != SEARCH_TOOL_NAME][:limit]
    return [
        {"name": to_wire_name(tool.name), "description": tool.description[:_MAX_DESCRIPTION_LENGTH]} for tool in others
    ]


@explain_misuse
class ToolSearch:
    """
    Lets the models of loops find tools instead of reading all of them: `ToolLoop(agent, model, tool_search=…)`.

    The registry gets a shared tool `search_tools`, by which an agent finds what it may call. Loops send it, the tools
    *always*, and what was found in the conversation, as long as the agent may call it. It holds nothing of a
    conversation: any number of loops and agents may have the same one.

    Args:
        registry: That of the agents.
        always: Tools that are sent in every request; by name or as objects.
        provider_loading: Use the deferred loading of providers that have it, Anthropic and OpenAI's Responses; False
            for servers and models that do not know it.

    Raises:
        DuplicateToolError: Another tool has the name `search_tools`.
        UnknownToolError: One of *always* is not registered.
    """

    def __init__(
        self, registry: ToolRegistry, *, always: Iterable[str | AnyTool] = (), provider_loading: bool = True
    ) -> None:
        state = get_runtime(registry).access_store.get_fresh_state()
        names = [get_name(tool) for tool in ((always,) if isinstance(always, str | Tool) else always)]
        self.registry, self.provider_loading = registry, provider_loading
        self.always = tuple(get_tool_record(state, name).tool.name for name in dict.fromkeys(names))
        registered = registry.get_tool(SEARCH_TOOL_NAME)
        if registered is None or registered.implementation.function is not search_tools:
            tool = Tool.from_function(search_tools, shared=True, read_only=True, idempotent=True)
            tool.implementation.discoverable = False
            registry.register_tool(tool)

    def __repr__(self) -> str:
        return f"<ToolSearch in {self.registry!r}>"


class FoundTools:
    """
    The tools that one conversation is sent: those that are sent always, and those that it found.

    Args:
        search: Which are sent always.
        toolset: The agent's.
        form: The model's format.
        tags: Only tools with one of these are sent.
        excluded_tags: No tools with one of these are sent.
        names: What was found before.
    """

    def __init__(
        self,
        search: ToolSearch,
        toolset: Toolset,
        form: Format,
        tags: frozenset[str] | None,
        excluded_tags: frozenset[str] | None,
        names: Iterable[str] = (),
    ) -> None:
        self._search, self._toolset, self._form = search, toolset, form
        self._tags, self._excluded_tags = tags, excluded_tags
        self._names = dict.fromkeys(names)

    def add_results(self, results: Sequence[ToolResult]) -> None:
        """Take note of what searches among *results* found."""
        self._names.update(dict.fromkeys(list_found_tools(results)))

    def list_sent_tools(self) -> list[AnyBoundTool]:
        """Return the tools that a request sends now: the search tool, those sent always, and those found."""
        state = get_runtime(self._search.registry).access_store.get_fresh_state()
        sent = list[AnyBoundTool]()
        for name in dict.fromkeys([SEARCH_TOOL_NAME, *self._search.always, *map(state.resolve_tool_name, self._names)]):
            record, tool = state.find_tool_record(name), self._toolset.get(name)
            if record is not None and tool is not None and self.is_offered(record.tool):
                sent.append(tool)
        return sent

    def is_offered(self, tool: AnyTool) -> bool:
        """Tell whether the tags let the loop call a tool; the search tool may always be called."""
        return tool.name == SEARCH_TOOL_NAME or has_matching_tags(tool, self._tags, self._excluded_tags)

    def complete_request(self, request: ModelRequest, *, strict: bool, think_augment: bool) -> ModelRequest:
        """Return *request* with the tools that are sent now, loaded as the provider does it."""
        names = [tool.name for tool in self.list_sent_tools()]
        tools = export_selected_tools(self._toolset, names, self._form, strict=strict, reason=think_augment)
        loader = LOADERS.get(self._form.name) if self._search.provider_loading else None
        if loader is None or SEARCH_TOOL_NAME not in tools:
            return msgspec.structs.replace(request, tools=list(tools.values()))
        search, always = tools.pop(SEARCH_TOOL_NAME), [tools.pop(name) for name in self._search.always if name in tools]
        found = {tool["name"]: tool for tool in tools.values()}
        messages, loaded = loader(
            DeferredRequest(messages=request.messages, search=search, tools=always, found=found)
        )
        return msgspec.structs.replace(request, messages=messages, tools=loaded)


def list_found_tools(results: Iterable[ToolResult]) -> list[str]:
    """Return the names of the tools that searches among *results* found, each once, as they travel to providers."""
    searches = (result.result for result in results if result.success and result.name == SEARCH_TOOL_NAME)
    return list(dict.fromkeys(found["name"] for result in searches for found in result))


@plain_manager
def narrow_searches(
    registry: ToolRegistry, tags: frozenset[str] | None, excluded_tags: frozenset[str] | None, deps: object
) -> Iterator[None]:
    """Let calls of `search_tools` inside find only tools with these tags, and pass *deps* to all calls."""
    with use_deps(registry, deps), use_setting(_narrowing, _Narrowing(registry, tags, excluded_tags)):
        yield
