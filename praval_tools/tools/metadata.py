"""`ToolMetadata`: the fields that describe a tool, their types for type checkers, and the checks of their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import compress, repeat
from operator import attrgetter, call, is_
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, cast

from attrs import evolve, field, fields, frozen

from praval_tools.errors import InvalidNameError, ToolDefinitionError
from praval_tools.lazy_regex import LazyRegex
from praval_tools.misuse import explain_misuse
from praval_tools.names import (
    HasName,
    check_agent_name,
    check_tool_name,
    get_class_name,
    get_plain_type,
    has_type,
    shorten_repr,
    suggest_names,
    to_plain_text,
)
from praval_tools.schema.docstrings import extract_description
from praval_tools.schema.json_values import is_utf8_encodable
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.metadata_values import NO_EXTRA, copy_mapping, show_extra, to_frozen_copy, to_plain_copy
from praval_tools.tools.source import Source
from praval_tools.values.builtin_iteration import iterate_without_overrides
from praval_tools.values.plain_arguments import to_plain_argument

if TYPE_CHECKING:
    from praval_tools.schema.signature import Signature

RiskLevel = Literal["low", "medium", "high", "critical"]
Speed = Literal["instant", "fast", "medium", "slow"]
Safety = Literal["native", "sandboxed", "external"]
ErrorStyle = Literal["message", "masked"]
Engine = Literal["inline", "thread", "process", "celery"]

# what a tool says of how bad a call may be: approvals, and grants made at run time, are for a tool that says just that
SAFETY_FIELDS: Final = ("risk_level", "safety", "read_only", "destructive", "open_world")

_TEXT_FIELDS: Final = ("version", "author", "approval_reason", "title")
_BOOL_FIELDS: Final = ("shared", "requires_approval", "concurrency_safe", "private")
_OPTIONAL_BOOL_FIELDS: Final = ("read_only", "destructive", "idempotent", "open_world", "strict_arguments")


_PREDEFINED_TAGS: Final = ("read_only", "destructive", "network", "slow", "privileged")
_SURROGATE_PROBLEM: Final = "holds half of a surrogate pair, which UTF-8 cannot carry; write the whole character"


def _to_tuple(value: object) -> Any:
    plain = to_plain_argument(value)
    if not has_type(plain, (tuple, list, set, frozenset)):
        return value
    return tuple(iterate_without_overrides(cast("Iterable[object]", plain)))


def _to_owner_name(value: object) -> Any:
    """Return the name of an agent that is given as object."""
    return value if value is None or type(value) is str else getattr(value, "name", value)


def _to_exception_types(value: object) -> Any:
    return (value,) if has_type(value, type) else _to_tuple(value)


@explain_misuse
@frozen(unsafe_hash=False)  # its mappings have no hash
class ToolMetadata:
    """
    What is declared about a tool; frozen, and checked when made.

    `registry.get_tool(name).metadata` shows the *present* owner and flags, after transfers and sharing.
    `parameters` and `return_type` are derived from the function's signature unless given.

    Args:
        tool_name: The name in the registry: 1–128 of `[A-Za-z0-9_.-]`, the first a letter or `_`; empty until there is
            a tool, which brings its own.
        owned_by: The one agent accountable for the tool.
        description: What a model reads; the docstring without its sections by default.
        category: One label; `general` means not categorised.
        shared: Every agent with `auto_discover_tools` may call it.
        version: The tool's own version.
        author: Who wrote it; grants nothing.
        tags: Many labels, which grant nothing.
        parameters: `{"x": {"type": "float", "required": True, "default": None}}`.
        return_type: The return hint as Python text.
        requires_approval: Every call waits for a person.
        risk_level: How bad a wrong call is.
        approval_reason: What the person who approves should know.
        speed: How long it usually takes; `instant` lets a sync tool run on an event loop.
        safety: Whether its code runs here (`native`), in a sandbox, or elsewhere (`external`), as an MCP server's does.
        read_only: Changes nothing (None: unknown).
        destructive: May destroy something (None: unknown).
        idempotent: A second run with the same key has no further effect (None: unknown).
        open_world: Reaches things outside (None: unknown).
        timeout: Seconds until a call is given up; None: the registry's.
        retries: How often a call that may succeed later is tried again; None: the registry's.
        concurrency_safe: False: it runs alone in its registry.
        private: True: listing, sharing and categories do not count; only ownership and grants do.
        max_result_size: Characters of a result that a model sees; None: the registry's.
        retry_on: Exception types after which a call may be tried again.
        engine: The engine that runs its function; None: chosen by the call.
        errors: `masked` hides the messages of unexpected exceptions from models; None: the registry's.
        strict_arguments: True: arguments are never repaired; None: the registry's.
        title: A name for people.
        extra: Anything else; what is kept is read-only, with tuples for lists.
        source: Where the tool comes from.

    Raises:
        ToolDefinitionError: With every value that is not allowed.
    """

    tool_name: str = ""
    owned_by: str | None = field(default=None, converter=_to_owner_name)
    _description: str | None = field(default=None, repr=False)
    category: str = "general"
    shared: bool = False
    version: str = "1.0.0"
    author: str = ""
    tags: tuple[str, ...] = field(default=(), converter=_to_tuple)
    _parameters: Mapping[str, Any] | None = field(default=None, repr=False, converter=copy_mapping)
    _return_type: str | None = field(default=None, repr=False)
    requires_approval: bool = False
    risk_level: RiskLevel = "low"
    approval_reason: str = ""
    speed: Speed = "medium"
    safety: Safety = "native"
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    timeout: float | None = None
    retries: int | None = None
    concurrency_safe: bool = True
    private: bool = False
    max_result_size: int | None = None
    retry_on: tuple[type[Exception], ...] = field(default=(), converter=_to_exception_types)
    engine: str | None = None
    errors: ErrorStyle | None = None
    strict_arguments: bool | None = None
    title: str = ""
    extra: Mapping[str, Any] = field(default=NO_EXTRA, converter=to_frozen_copy, repr=show_extra)
    source: Source | None = None
    _signature: Signature | None = field(default=None, repr=False, eq=False)
    _doc: str | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        if problems := _find_problems(self):
            raise ToolDefinitionError(str(self.tool_name), problems)

    def __deepcopy__(self, memo: object) -> ToolMetadata:
        return self

    @property
    def description(self) -> str:
        """What a model reads: as given, else the docstring without its sections."""
        return self._description if self._description is not None else extract_description(self._doc)

    @property
    def described(self) -> bool:
        """Whether there is a description; asked at every declaration, so a docstring is not parsed for it."""
        return bool(self._description or (self._description is None and self._doc and self._doc.strip()))

    @property
    def parameters(self) -> dict[str, Any]:
        """Each parameter's type, whether it is required, and its default."""
        with activate_tool_frame("(metadata)"):  # classes in its hints may have code of their own
            described = self._parameters
            if described is None:
                described = {} if self._signature is None else self._signature.describe_parameters()
            return dict(copy_mapping(described))

    @property
    def return_type(self) -> str:
        """The return hint as Python text."""
        if self._return_type is not None:
            return self._return_type
        if self._signature is None:
            return "Any"
        with activate_tool_frame("(metadata)"):
            return self._signature.format_return_hint()

    @property
    def is_async(self) -> bool:
        """Whether the function is to be awaited."""
        return self._signature is not None and self._signature.is_async

    @property
    def is_concurrency_safe(self) -> bool:
        """The field `concurrency_safe`."""
        return self.concurrency_safe

    @property
    def custom_tags(self) -> tuple[str, ...]:
        """The field `tags`."""
        return self.tags

    @property
    def all_tags(self) -> tuple[str, ...]:
        """Its tags, and the predefined ones of what it says: `read_only destructive network slow privileged`."""
        flags = (self.read_only, self.destructive, self.open_world, self.speed == "slow", self.requires_approval)
        if len(self.tags) < 2 and not any(flags):  # as nearly always; asked at every declaration
            return self.tags
        return tuple(dict.fromkeys((*self.tags, *compress(_PREDEFINED_TAGS, flags))))

    def to_dict(self) -> dict[str, Any]:
        """Return every field by name, lists instead of tuples; `source` as its text."""
        values = {name: getattr(self, name) for name in FIELD_NAMES}
        values["tags"], values["retry_on"] = list(self.tags), [get_class_name(kind) for kind in self.retry_on]
        values["extra"], values["source"] = to_plain_copy(self.extra), str(self.source or "")
        return values

    def replace(self, **changes: Any) -> ToolMetadata:
        """Return a copy with *changes*, checked again."""
        return evolve(self, **changes) if changes else self

    def with_trusted_fields(self, values: Mapping[str, object]) -> ToolMetadata:
        """Return a copy with *values*, which are not checked again."""
        copied = object.__new__(ToolMetadata)
        any(map(call, _FIELD_SETTERS, repeat(copied), _get_all_fields(self)))  # sets all: None is returned each time
        for name, value in values.items():
            object.__setattr__(copied, name, value)
        return copied


_FIELD_ATTRIBUTES: Final = tuple(attribute.name for attribute in fields(ToolMetadata))
_FIELD_SETTERS: Final = tuple(vars(ToolMetadata)[name].__set__ for name in _FIELD_ATTRIBUTES)
_get_all_fields = attrgetter(*_FIELD_ATTRIBUTES)


if TYPE_CHECKING:

    class ToolFields(TypedDict, total=False):
        """The fields of `ToolMetadata` as keywords, for type checkers."""

        owned_by: str | HasName | None
        description: str | None
        category: str
        shared: bool
        version: str
        author: str
        tags: Iterable[str]
        parameters: Mapping[str, Any] | None
        return_type: str | None
        requires_approval: bool
        risk_level: RiskLevel
        approval_reason: str
        speed: Speed
        safety: Safety
        read_only: bool | None
        destructive: bool | None
        idempotent: bool | None
        open_world: bool | None
        timeout: float | None
        retries: int | None
        concurrency_safe: bool
        private: bool
        max_result_size: int | None
        retry_on: type[Exception] | Iterable[type[Exception]]
        engine: Engine | str | None
        errors: ErrorStyle | None
        strict_arguments: bool | None
        title: str
        extra: Mapping[str, Any]
        source: Source | None

    class DeclaredFields(ToolFields, total=False):
        """Every keyword of `@tool`, for type checkers."""

        name: str | None
        tool_name: str | None
        namespace: str | None
        method_name: str | None
        metadata: ToolMetadata | None
        strict: bool
        register: bool
        replace: bool
        registry: Any


_ALIASES: Final = {attribute.name: attribute.alias or attribute.name for attribute in fields(ToolMetadata)}
FIELD_NAMES: Final = tuple(alias for alias in _ALIASES.values() if alias not in ("signature", "doc"))
"""The metadata that `@tool` takes as keywords."""


def describe_unknown_fields(names: Iterable[str]) -> list[str]:
    """Return one sentence for each name that is not a field of the metadata."""
    return [
        f"unknown keyword {name!r}{suggest_names(name, FIELD_NAMES, '; did you mean ')}"
        for name in names
        if name not in FIELD_NAMES
    ]


# ── checks, one per field; only values that differ from the default are looked at ────────────────

FieldCheck = Callable[[object], str | None]
"""Returns what is wrong with a value, if anything is."""


def _make_choice_check(*allowed: str) -> FieldCheck:
    def check_choice(value: object) -> str | None:
        if type(value) is str and value in allowed:
            return None
        if has_type(value, str) and (plain := to_plain_text(value)) in allowed:
            return f"{plain!r} is of class {get_class_name(type(value))}; pass it as a plain text"
        hint = suggest_names(value, allowed, "; did you mean ")
        return f"{shorten_repr(value)} is none of {', '.join(map(repr, allowed))}{hint}"

    return check_choice


def _make_check(is_allowed: Callable[[object], bool], expected: str) -> FieldCheck:
    def check(value: object) -> str | None:
        return None if is_allowed(value) else f"{shorten_repr(value)} is not {expected}"

    return check


def _check_text(value: object) -> str | None:
    """Text is written to journals, providers and terminals, all of them in UTF-8."""
    if type(value) is not str:
        return None if value is None else f"{shorten_repr(value)} is not a text"
    return None if is_utf8_encodable(value) else f"{shorten_repr(value)} {_SURROGATE_PROBLEM}"


def _check_required_text(value: object) -> str | None:
    return "None is not a text" if value is None else _check_text(value)


def _check_mapping(value: object) -> str | None:
    if value is not None and not has_type(value, Mapping):
        return f"{shorten_repr(value)} is not a mapping"
    for name in () if value is None else value:  # a look-up would run the code of an object
        if type(name) is not str:
            return f"the name {shorten_repr(name)} is not a text"
    return None if _has_only_encodable_text(value) else f"{shorten_repr(value)} {_SURROGATE_PROBLEM}"


def _has_only_encodable_text(value: object) -> bool:
    """Tell whether each text in *value* and its containers can be written as UTF-8."""
    if has_type(value, str):
        return is_utf8_encodable(value)
    if has_type(value, Mapping):
        return all(_has_only_encodable_text(key) and _has_only_encodable_text(item) for key, item in value.items())
    return not has_type(value, (list, tuple)) or all(map(_has_only_encodable_text, value))


def _make_type_check(kind: type, expected: str, *, none: bool = True) -> FieldCheck:
    return _make_check(lambda value: type(value) is kind or (none and value is None), expected)


def _make_count_check(least: int) -> FieldCheck:
    return _make_check(
        lambda value: value is None or (type(value) is int and value >= least), f"a whole number from {least} on"
    )


def _is_number_of_seconds(value: object) -> bool:
    kind = get_plain_type(value)
    return value is None or (kind in (int, float) and isinstance(value, int | float) and 0 < value < math.inf)


def _is_text(value: object) -> bool:
    return type(value) is str and bool(value.strip()) and is_utf8_encodable(value)


def _is_exception_type(value: object) -> bool:
    return has_type(value, type) and issubclass(value, Exception)


def _make_tuple_check(is_allowed: Callable[[object], bool], expected: str) -> FieldCheck:
    return _make_check(lambda value: has_type(value, tuple) and all(map(is_allowed, value)), expected)


def _make_name_check(check: Callable[[object], str]) -> FieldCheck:
    def check_name(value: object) -> str | None:
        try:
            check(value)
        except InvalidNameError as error:
            return str(error)
        return None

    return check_name


_check_agent = _make_name_check(check_agent_name)


def _check_owner(value: object) -> str | None:
    if value is None or (type(value) is str and value.startswith("plugin:") and value.isprintable()):
        return None
    return _check_agent(value)


_PLUGIN_ENGINE_NAME: Final = LazyRegex(r"[a-z][a-z0-9_-]*(\.[a-z0-9_-]+)+")


def _check_engine(value: object) -> str | None:
    """A plugin's engine has a dot in its name, so that a misspelled name of a built-in one is an error here."""
    if type(value) is str and _PLUGIN_ENGINE_NAME.fullmatch(value):
        return None
    problem = _make_choice_check("inline", "thread", "process", "celery")(value)
    return f"{problem}, nor a plugin's engine, like 'acme.pool'" if problem and "mean" not in problem else problem


_CHECKS: Final[dict[str, FieldCheck]] = {
    "tool_name": _make_name_check(check_tool_name),
    "owned_by": _check_owner,
    "category": _make_check(_is_text, "a non-empty text in UTF-8"),
    "tags": _make_tuple_check(_is_text, "a list of texts in UTF-8"),
    "risk_level": _make_choice_check("low", "medium", "high", "critical"),
    "speed": _make_choice_check("instant", "fast", "medium", "slow"),
    "safety": _make_choice_check("native", "sandboxed", "external"),
    "errors": _make_choice_check("message", "masked"),
    "engine": _check_engine,
    "timeout": _make_check(_is_number_of_seconds, "a positive number of seconds"),
    "retries": _make_count_check(0),
    "max_result_size": _make_count_check(1),
    "retry_on": _make_tuple_check(_is_exception_type, "a list of exception types"),
    "extra": _check_mapping,
    "parameters": _check_mapping,
    "source": _make_type_check(Source, "a Source"),
    "description": _check_text,
    "return_type": _check_text,
    "doc": _check_text,
    **dict.fromkeys(_TEXT_FIELDS, _check_required_text),
    **{name: _make_type_check(bool, "True or False", none=False) for name in _BOOL_FIELDS},
    **{name: _make_type_check(bool, "True, False or None") for name in _OPTIONAL_BOOL_FIELDS},
}


def iter_invalid_values(values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Yield the name and the problem of each value that the field of that name does not accept; None is skipped."""
    for name, value in values.items():
        if value is not None and (problem := _CHECKS[name](value)) is not None:
            yield name, problem


_ALL_CHECK_ROWS: Final = tuple(
    (attribute.name, _ALIASES[attribute.name], attribute.default, _CHECKS[_ALIASES[attribute.name]])
    for attribute in fields(ToolMetadata)
    if _ALIASES[attribute.name] in _CHECKS
)
_COMMON_CHECK_ROWS: Final = tuple(
    row for row in _ALL_CHECK_ROWS if row[0] in ("tool_name", "owned_by", "_description", "category", "source", "_doc")
)
_RARE_CHECK_ROWS: Final = tuple(row for row in _ALL_CHECK_ROWS if row not in _COMMON_CHECK_ROWS)
_get_rare_fields = attrgetter(*(row[0] for row in _RARE_CHECK_ROWS))
_RARE_DEFAULTS: Final = tuple(row[2] for row in _RARE_CHECK_ROWS)


def _find_problems(metadata: ToolMetadata) -> list[str]:
    """Return what is not allowed; fields that are rarely set are compared with their defaults all at once."""
    has_rare_fields = not all(map(is_, _get_rare_fields(metadata), _RARE_DEFAULTS))
    problems: list[str] = []
    for name, alias, default, check in _ALL_CHECK_ROWS if has_rare_fields else _COMMON_CHECK_ROWS:
        value = getattr(metadata, name)
        if value is not default and (problem := check(value)) is not None:
            problems.append(f"{alias}: {problem}")
    if not has_rare_fields:
        return problems
    if metadata.read_only and metadata.destructive:
        problems.append("read_only and destructive contradict each other; drop one of them")
    if metadata.read_only and metadata.idempotent is False:
        problems.append(
            "read_only=True and idempotent=False contradict each other: what changes nothing can be repeated"
        )
    return problems
