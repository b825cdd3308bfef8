"""What stands for what: Praval's names, tools and agents, and those of `praval_tools`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from attrs import frozen

from praval_tools.compat.praval.model import ToolMetadata
from praval_tools.errors import InvalidNameError, ToolDefinitionError
from praval_tools.names import check_agent_name, check_tool_name, normalize_name
from praval_tools.tools.metadata import ToolMetadata as OurMetadata
from praval_tools.tools.tool import Tool as OurTool

_RISK_LEVELS: Final = ("low", "medium", "high", "critical")
_MUTABLE_FIELDS: Final = ("owned_by", "shared", "description", "category", "requires_approval", "risk_level",
                   "approval_reason", "version", "author")  # fmt: skip
"""Fields that the operator may change after a tool was registered."""


@frozen(eq=False)
class PravalRegistration:
    """What was registered in Praval's way: its tool, and what was said of it then."""

    tool: Any
    name: Any
    registered_name: str
    owner: str | None
    category: Any
    shared: bool
    metadata: OurMetadata
    entry: Mapping[str, Any] | None = None


def get_registration(tool: OurTool[..., Any]) -> PravalRegistration | None:
    """Return the mark of a tool that came through Praval's interface."""
    return tool.__dict__.get("_praval_mark")


def _compute_digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def to_registry_name(name: Any) -> str:
    """Return the name that a tool of Praval's has in `praval_tools`: its own where it is legal."""
    try:
        return check_tool_name(name)
    except InvalidNameError:
        return make_fallback_name(name)


def make_fallback_name(name: Any) -> str:
    """Return the name for a tool whose own is not legal or clashes: always the same, and nobody else's."""
    text = name if isinstance(name, str) else repr(name)
    return check_tool_name(f"{normalize_name(text or 'tool')[:100]}_{_compute_digest(text)}")


def to_agent_name(agent: Any) -> str:
    """Return the agent's name in `praval_tools`: its own where it is legal."""
    try:
        return check_agent_name(agent)
    except InvalidNameError:
        text = agent if isinstance(agent, str) else repr(agent)
        safe = "".join(one if one.isprintable() and one != ":" else "_" for one in text[:100]).strip()
        return check_agent_name(f"{safe}~{_compute_digest(text)}")


def to_registry_tool(
    tool: Any, registered: str, parameters: Mapping[str, Any] | None = None, entry: Mapping[str, Any] | None = None
) -> OurTool[..., Any]:
    """
    Make a tool of `praval_tools` of one of Praval's, under the name *registered*.

    Args:
        tool: Anything with `func` and `metadata`.
        registered: A legal name.
        parameters: JSON Schema of the arguments; None: derived from the function, and open where that
            cannot be read: Praval takes such functions, too.
        entry: What an agent's dictionary of Praval's says of it.
    """
    said, function = tool.metadata, _unwrap_handler(tool.func)
    fields = _build_metadata_fields(said, registered)
    description = str(said.description or (tool.func.__doc__ or "").strip() or said.tool_name)
    if parameters is None:
        try:
            made = OurTool.from_function(function, registered, description, strict=False, **fields)
        except ToolDefinitionError:
            made = OurTool(registered, description, _build_open_schema(said.parameters), callable=function, **fields)
    else:
        made = OurTool(registered, description, parameters, callable=function, **fields)
    made.implementation.discoverable, made.implementation.fallback_schema = False, _build_open_schema(said.parameters)
    # not a field: the very object that was registered is given back, and copies of the tool carry it along
    made.__dict__["_praval_mark"] = PravalRegistration(
        tool, said.tool_name, registered, said.owned_by or None, said.category, bool(said.shared), made.metadata,
        entry,
    )  # fmt: skip
    return made


def _unwrap_handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    Return a function that is as async as what it calls, and that calls a class, which is no function here.

    `add_tool_spec` wraps async handlers in plain functions.
    """
    if isinstance(function, type):
        return _wrap_class(function)
    if inspect.iscoroutinefunction(function) or not getattr(function, "__qualname__", "").startswith("Agent.add_tool"):
        return function
    handler = inspect.getclosurevars(function).nonlocals.get("handler")
    return handler if inspect.iscoroutinefunction(handler) and callable(handler) else function


def _wrap_class(kind: type) -> Callable[..., Any]:
    def build(*args: Any, **kwargs: Any) -> Any:
        return kind(*args, **kwargs)

    build.__signature__ = inspect.signature(kind)  # type: ignore[attr-defined]
    build.__name__, build.__qualname__, build.__module__ = kind.__name__, kind.__qualname__, kind.__module__
    return build


def _build_metadata_fields(said: Any, registered: str) -> dict[str, Any]:
    category = said.category if isinstance(said.category, str) and said.category.strip() else "general"
    extra = {} if said.tool_name == registered else {"declared_as": str(said.tool_name)}
    return {
        "owned_by": to_agent_name(said.owned_by) if said.owned_by else None,
        "category": category,
        "shared": bool(said.shared),
        "version": str(said.version),
        "author": str(said.author),
        "tags": [tag for tag in said.tags if isinstance(tag, str) and tag.strip()],
        "requires_approval": bool(said.requires_approval),
        "risk_level": said.risk_level if said.risk_level in _RISK_LEVELS else "low",
        "approval_reason": str(said.approval_reason or ""),
        "extra": extra,
    }


def _build_open_schema(parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in parameters if name not in ("args", "kwargs")}}


def refresh_praval_tool(tool: OurTool[..., Any], mark: PravalRegistration) -> Any:
    """Return Praval's tool, which says what the operator has changed since."""
    now, then, said = tool.metadata, mark.metadata, mark.tool.metadata
    if now is not then:
        for name in _MUTABLE_FIELDS:
            present = getattr(now, name)
            if present != getattr(then, name):
                setattr(said, name, present)
    return mark.tool


def to_praval_tool(tool: OurTool[..., Any], kind: type) -> Any:
    """Return Praval's form of a tool that was declared in `praval_tools`."""
    made: Any = object.__new__(kind)
    said = tool.metadata
    kept = ("owned_by", "description", "category", "shared", "version", "author", "requires_approval", "risk_level",
            "approval_reason", "return_type")  # fmt: skip
    made.func = tool.function
    made.metadata = ToolMetadata(
        tool_name=tool.name, tags=list(said.tags),
        parameters={name: dict(one) for name, one in said.parameters.items()},
        **{name: getattr(said, name) for name in kept},
    )  # fmt: skip
    return made
