"""Converts names, tools and agents between Praval and `praval_tools`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any, Final, TypeVar, cast

from attrs import frozen

from praval_tools.compat.praval.model import Tool, ToolMetadata
from praval_tools.errors import InvalidNameError, ToolDefinitionError
from praval_tools.names import check_agent_name, check_tool_name, normalize_name, to_plain_scalar, to_plain_text
from praval_tools.schema.json_values import SCALAR_TYPES
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.metadata import ToolMetadata as OurMetadata
from praval_tools.tools.tool import AnyTool
from praval_tools.tools.tool import Tool as OurTool

T = TypeVar("T")

JsonObject = Mapping[str, Any]

RISK_LEVELS: Final = ("low", "medium", "high", "critical")
_SAME_FIELDS: Final = (
    "owned_by",
    "description",
    "category",
    "shared",
    "version",
    "author",
    "requires_approval",
    "risk_level",
    "approval_reason",
)
"""Fields that both kinds of metadata have, and that the operator may change after a tool was registered."""

_REGISTRATION_ATTRIBUTE: Final = "_praval_registration"


@frozen(eq=False)
class PravalRegistration:
    """
    A tool that was registered through Praval's interface, with its metadata at that time.

    Args:
        tool: Praval's tool, anything with `func` and `metadata`.
        name: Its name in Praval.
        registered_name: Its name in the registry.
        owner: Its owner's name in Praval.
        category: Its category in Praval.
        shared: Whether it was shared.
        metadata: Its metadata in the registry.
        entry: What the dictionary of a Praval agent says of it.
        function: The function of Praval's tool at that time; whoever registered that may change it later.
    """

    tool: Tool
    name: str
    registered_name: str
    owner: str | None
    category: str
    shared: bool
    metadata: OurMetadata
    entry: Mapping[str, object] | None = None
    function: object = None


def get_registration(tool: AnyTool) -> PravalRegistration | None:
    """Return the registration of a tool that came through Praval's interface; None for any other tool."""
    return tool.__dict__.get(_REGISTRATION_ATTRIBUTE)


def get_praval_name(tool: AnyTool) -> str:
    """Return the name of a tool in Praval."""
    registration = get_registration(tool)
    return tool.name if registration is None else registration.name


def get_praval_category(tool: AnyTool) -> str:
    """Return the category of a tool in Praval."""
    registration = get_registration(tool)
    return tool.metadata.category if registration is None else registration.category


def _compute_digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def to_registry_name(name: object) -> str:
    """Return the name of a Praval tool in `praval_tools`: its own where it is legal."""
    name = to_plain_key(name)
    try:
        return check_tool_name(cast(str, name))
    except InvalidNameError:
        return make_fallback_name(name)


def make_fallback_name(name: object) -> str:
    """Return the registry name for a tool whose own is not legal or clashes: stable, and unique to the tool."""
    name = to_plain_key(name)
    text = name if isinstance(name, str) else repr(name)
    return check_tool_name(f"{normalize_name(text or 'tool')[:100]}_{_compute_digest(text)}")


def to_agent_name(agent: object) -> str:
    """Return the agent's name in `praval_tools`: its own where it is legal."""
    agent = to_plain_key(agent)
    try:
        return check_agent_name(cast(str, agent))
    except InvalidNameError:
        text = agent if isinstance(agent, str) else repr(agent)
        safe = "".join(letter if letter.isprintable() and letter != ":" else "_" for letter in text[:100]).strip()
        return check_agent_name(f"{safe}~{_compute_digest(text)}")


def to_registry_tool(
    tool: Tool, registered: str, parameters: JsonObject | None = None, entry: Mapping[str, object] | None = None
) -> AnyTool:
    """
    Convert a tool of Praval's, under the name *registered*.

    Args:
        tool: Anything with `func` and `metadata`.
        registered: A legal name.
        parameters: JSON Schema of the arguments; None: derived from the function, and open where that
            cannot be read: Praval takes such functions, too.
        entry: What the dictionary of a Praval agent says of it.
    """
    given = tool.func
    metadata, function = tool.metadata, _unwrap_handler(given)
    fields, open_schema = _build_metadata_fields(metadata, registered), _build_open_schema(metadata.parameters)
    description = str(metadata.description or (tool.func.__doc__ or "").strip() or to_plain_key(metadata.tool_name))
    try:
        if parameters is not None:
            converted = OurTool(registered, description, parameters, callable=function, **fields)
        else:
            converted = OurTool.from_function(function, registered, description, strict=False, **fields)
    except ToolDefinitionError:
        if parameters is not None:
            raise
        converted = OurTool(registered, description, open_schema, callable=function, **fields)
    converted.implementation.discoverable, converted.implementation.fallback_schema = False, open_schema
    # not a field: the very object that was registered is given back, and copies of the tool carry it along
    converted.__dict__[_REGISTRATION_ATTRIBUTE] = PravalRegistration(
        tool=tool,
        name=to_plain_key(metadata.tool_name),
        registered_name=registered,
        owner=to_plain_key(metadata.owned_by or None),
        category=to_plain_key(metadata.category),
        shared=bool(metadata.shared),
        metadata=converted.metadata,
        entry=entry,
        function=given,
    )
    return converted


def to_plain_key(value: T) -> T:
    """
    Return a value of Praval's metadata without its own class, whose code would run where it is compared.

    Texts and other scalars are all that is declared there; of another object, its text is returned.
    """
    plain = to_plain_scalar(value)
    return cast(T, plain if type(plain) in SCALAR_TYPES else to_plain_text(plain))


def _unwrap_handler(function: Callable[..., Any]) -> Callable[..., Any]:
    """
    Return the async handler that `add_tool_spec` has wrapped in a plain function, or a function that calls a class.

    Any other function is returned as it is.
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


def _build_metadata_fields(metadata: ToolMetadata, registered: str) -> dict[str, Any]:
    name, category, risk_level = to_plain_key(metadata.tool_name), metadata.category, metadata.risk_level
    return {
        "owned_by": to_agent_name(metadata.owned_by) if metadata.owned_by else None,
        "category": category if isinstance(category, str) and category.strip() else "general",
        "shared": bool(metadata.shared),
        "version": str(metadata.version),
        "author": str(metadata.author),
        "tags": [tag for tag in metadata.tags if isinstance(tag, str) and tag.strip()],
        "requires_approval": bool(metadata.requires_approval),
        "risk_level": risk_level if risk_level in RISK_LEVELS else "low",
        "approval_reason": str(metadata.approval_reason or ""),
        "extra": {} if name == registered else {"declared_as": str(name)},
    }


def _build_open_schema(parameters: Mapping[str, object]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: {} for name in parameters if name not in ("args", "kwargs")}}


def refresh_praval_tool(tool: AnyTool, registration: PravalRegistration) -> Tool:
    """Return Praval's tool, updated by what the operator has changed since it was registered."""
    now, then = tool.metadata, registration.metadata
    if now is not then:
        with activate_tool_frame(tool.name):  # its classes may have code of their own
            for name in _SAME_FIELDS:
                value = getattr(now, name)
                if value != getattr(then, name):
                    setattr(registration.tool.metadata, name, value)
    return registration.tool


def to_praval_tool(tool: AnyTool, kind: type[Tool]) -> Tool:
    """Return Praval's form, of class *kind*, of a tool that was declared in `praval_tools`."""
    converted, metadata = object.__new__(kind), tool.metadata
    converted.func = tool.function
    converted.metadata = ToolMetadata(
        tool_name=tool.name,
        tags=list(metadata.tags),
        parameters={name: dict(schema) for name, schema in metadata.parameters.items()},
        return_type=metadata.return_type,
        **{name: getattr(metadata, name) for name in _SAME_FIELDS},
    )
    return converted
