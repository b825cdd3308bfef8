"""Reads what the tools of LangChain take: arguments that a model gives, and defaults and marks as secret besides."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from types import FunctionType
from typing import Annotated, Final, NamedTuple, TypeVar

from langchain.tools import ToolRuntime
from langchain_core.runnables.config import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, StructuredTool
from langchain_core.tools import Tool as SingleInputTool
from pydantic import AliasChoices, AliasPath, BaseModel, RootModel, create_model
from pydantic.fields import FieldInfo

from praval_tools.errors import ToolDefinitionError
from praval_tools.formats.format import WireObject
from praval_tools.names import describe_error
from praval_tools.schema.model_marks import read_model_marks
from praval_tools.schema.schema_tree import close_object_schemas, iter_schemas
from praval_tools.schema.secret_marks import contains_secret_mark, list_field_names
from praval_tools.schema.type_hints import NOTHING, Hint, Secret, unwrap_hint

T = TypeVar("T")

_FACTORIES: Final = (list, dict, set, tuple, frozenset)
"""What makes the same default at each call."""
_NEVER_FILLED_IN: Final = frozenset(("args", "kwargs"))
"""Fields whose defaults LangChain does not pass on: it takes them for those of `*args` and `**kwargs`."""


class ToolArguments(NamedTuple):
    """
    What a tool of LangChain takes.

    Args:
        schema: The JSON Schema of what a model gives; None where the hints of *declared* say it.
        declared: A function with their hints and defaults, to be read, not called.
        runs: The tool that takes them as the registry reads them.
        problems: Why a registry could not judge them.
    """

    schema: WireObject | None
    declared: FunctionType
    runs: BaseTool
    problems: list[str]

    def select_given(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """
        Return what LangChain is given of the arguments.

        What is the very default that was declared, it fills in itself: as a copy, and unchecked.
        """
        defaults: Mapping[str, object] = getattr(self.declared, "__kwdefaults__", None) or {}
        return {
            name: value.root if isinstance(value, ClosedArgument) else value
            for name, value in arguments.items()
            if name not in defaults or value is not defaults[name]
        }


class _Field(NamedTuple):
    """An argument that a class names: its hint there, its default, and whether that is made anew for each call."""

    hint: Hint
    default: object
    is_made: bool


def read_arguments(tool: BaseTool) -> ToolArguments:
    """
    Return what a tool takes.

    Where fields of its class hold classes, their hints say it, as for the registry's own tools: the JSON Schema alone
    does not say what such a class fills in, reads by other names, or marks.

    Raises:
        ToolDefinitionError: It cannot be read.
    """
    try:
        function = find_function(tool)
        hints = _read_hints(function)
        if injected := _list_injected(tool, hints):
            raise ToolDefinitionError(tool.name, map(_describe_injected, sorted(injected)))
        return _read_arguments(tool, function, hints)
    except ToolDefinitionError:
        raise
    except Exception as error:  # the seam to hints and classes of the program
        reason = f"its arguments cannot be read ({describe_error(error)})"
        fix = "define what its hints name, or wrap its function in one with type hints"
        raise ToolDefinitionError(tool.name, [f"{reason}: {fix}"]) from error


def _describe_injected(name: str) -> str:
    return (
        f"parameter {name!r} is injected by LangGraph, which a registry cannot do: "
        f"make a tool that takes it from elsewhere, such as ToolContext.deps"
    )


def _read_arguments(tool: BaseTool, function: Callable[..., object], hints: Mapping[str, Hint]) -> ToolArguments:
    schema, fields = _read_schema(tool), _read_fields(tool)
    shown, lost = schema.get("properties", {}).keys(), _list_lost(tool, function, hints)
    problems = [
        f"LangChain does not pass its parameter {name!r} on: give it another name, without exclude=True or an alias"
        for name in sorted(shown & (lost | _list_misread(tool, shown)))
    ]
    problems += [
        f"the default of its parameter {name!r} is made anew for each call, so nobody can judge it: give it a value"
        for name, field in fields.items()
        if field.is_made
    ]
    own_defaults = _read_own_defaults(tool, function, hints, shown, lost)
    marked = _list_marked(tool, function, hints, fields, shown)
    defaults = {**own_defaults, **{name: field.default for name, field in fields.items()}}
    if not _has_inner_fields(schema, fields):
        anything: dict[str, Hint] = dict.fromkeys(defaults.keys() | marked, object)
        return ToolArguments(schema, _declare(function, anything, marked, defaults), tool, problems)
    problems += [
        f"the class of its arguments lacks the function's parameter {name!r}, so nobody can judge its default: "
        f"add a field to the class"
        for name in sorted(own_defaults.keys() - fields.keys())
    ]
    declared = _declare(function, {name: field.hint for name, field in fields.items()}, marked, defaults)
    if not _is_model(tool.args_schema):
        problems.append("its arguments are a class of Pydantic 1 whose fields hold others: make them of Pydantic 2")
        return ToolArguments(schema, declared, tool, problems)
    return ToolArguments(None, declared, _pass_arguments_on(tool, tool.args_schema), problems)


def _is_model(schema: object) -> typing.TypeGuard[type[BaseModel]]:
    return isinstance(schema, type) and issubclass(schema, BaseModel)


def find_function(tool: BaseTool) -> Callable[..., object]:
    """Return the function that does the work."""
    if isinstance(tool, StructuredTool | SingleInputTool):
        function = tool.coroutine or tool.func  # as LangChain chooses in `arun`
        if function is not None:
            return function
    return tool._arun if is_async(tool) else tool._run


def is_async(tool: BaseTool) -> bool:
    """Tell whether a tool is to be awaited."""
    if isinstance(tool, StructuredTool | SingleInputTool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


def _read_hints(function: Callable[..., object]) -> dict[str, Hint]:
    while isinstance(function, partial):
        function = function.func
    if not inspect.isroutine(function):
        function = function.__init__ if inspect.isclass(function) else function.__call__  # type: ignore[operator]
    hints = typing.get_type_hints(function, include_extras=True)
    return {name: hint for name, hint in hints.items() if name != "return"}


def _read_schema(tool: BaseTool) -> WireObject:
    """
    Return the JSON Schema of what a model passes.

    A class of Pydantic passes over members that it does not know, and reads some of them as others, by its aliases:
    only those of the schema, which are judged, may be given, also where the class allows others.
    """
    if tool.args_schema is None and isinstance(tool, SingleInputTool):
        return {"type": "object", "properties": tool.args, "required": list(tool.args), "additionalProperties": False}
    schema = tool.tool_call_schema
    if not isinstance(schema, dict):
        schema = schema.model_json_schema() if issubclass(schema, BaseModel) else schema.schema()
        schema = close_object_schemas(schema, keeps_open=False)
    return {key: value for key, value in schema.items() if key not in ("title", "description")}


def _read_fields(tool: BaseTool) -> dict[str, _Field]:
    """Return the fields of the class of the arguments by the names that a model gives; none where there is none."""
    schema = tool.args_schema
    if schema is None or isinstance(schema, dict):
        return {}
    if _is_model(schema):
        schema.model_rebuild()  # aliases of a generator, and references to classes, are there only after that
        return {
            name: _read_field(
                name, Annotated[_close_classes(item.annotation), item], item.is_required(),
                item.default, item.default_factory,
            ) for name, item in schema.model_fields.items()
        }  # fmt: skip
    hints = typing.get_type_hints(schema, include_extras=True)
    return {
        item.alias: _read_field(name, hints.get(name, object), bool(item.required), item.default, item.default_factory)
        for name, item in getattr(schema, "__fields__", {}).items()
    }


class ClosedArgument(RootModel[T]):
    """A value with classes that take members of any name, without these: only those of the schema are judged."""

    @classmethod
    def model_json_schema(cls, *args: Hint, **keywords: Hint) -> WireObject:
        """Return the JSON Schema with its objects closed."""
        schema: WireObject = close_object_schemas(super().model_json_schema(*args, **keywords), keeps_open=False)
        return schema


def _close_classes(hint: Hint) -> Hint:
    """Return *hint*, closed where classes in it take members of any name, by which they may read their fields."""
    if not list_field_names(hint):
        return hint
    schema = RootModel[hint].model_json_schema()
    is_closed = close_object_schemas(schema) == close_object_schemas(schema, keeps_open=False)
    return hint if is_closed else ClosedArgument[hint]


def _read_field(name: str, hint: Hint, is_required: bool, default: object, factory: object) -> _Field:
    if is_required or name in _NEVER_FILLED_IN:
        return _Field(hint, NOTHING, False)
    if factory is None:
        kind = unwrap_hint(hint)
        is_closed = isinstance(kind, type) and issubclass(kind, ClosedArgument)
        return _Field(hint, kind.model_construct(default) if is_closed else default, False)
    made: object = next((kind() for kind in _FACTORIES if factory is kind), NOTHING)
    return _Field(hint, made, made is NOTHING)


def _has_inner_fields(schema: WireObject, fields: Mapping[str, _Field]) -> bool:
    """Tell whether fields of the class of the arguments hold classes with fields."""
    if any(list_field_names(field.hint) for field in fields.values()):
        return True
    return bool(fields) and any("properties" in part for part in iter_schemas(schema) if part is not schema)


def _read_own_defaults(
    tool: BaseTool, function: Callable[..., object], hints: Mapping[str, Hint], shown: Set[str], lost: Set[str]
) -> dict[str, object]:
    """
    Return the defaults of the function itself, without those of what LangChain gives it.

    What a partial binds is the function's business, unless a model may give it.
    """
    parameters = list(inspect.signature(function).parameters.values())
    if isinstance(tool, SingleInputTool):  # LangChain gives it its first argument by its place
        parameters = parameters[1:]
    bound = set[str]()
    while isinstance(function, partial):
        bound, function = bound | function.keywords.keys(), function.func
    return {
        item.name: item.default
        for item in parameters
        if item.default is not item.empty
        and item.name not in lost
        and (item.name in shown or item.name not in bound)
        and RunnableConfig not in typing.get_args(hints.get(item.name))
    }


def _list_marked(
    tool: BaseTool, function: Callable[..., object], hints: Mapping[str, Hint], fields: Mapping[str, _Field],
    shown: Set[str],
) -> set[str]:  # fmt: skip
    """Return what the function or the class marks as secret, without what only classes inside of that mark."""
    marked = set[str]()
    for name, hint in hints.items():
        is_same = name in fields and unwrap_hint(hint) == unwrap_hint(fields[name].hint)
        if contains_secret_mark(hint, looks_into_classes=not is_same):
            marked.add(name)
    if isinstance(tool, SingleInputTool) and next(iter(inspect.signature(function).parameters), None) in marked:
        marked |= shown
    if _is_model(tool.args_schema):
        marks = read_model_marks(tool.args_schema)
        return marked | (fields.keys() if marks.is_whole else fields.keys() & marks.outer_names)
    return marked | {name for name, field in fields.items() if contains_secret_mark(field.hint)}


def _declare(
    function: Callable[..., object], hints: Mapping[str, Hint], marked: Set[str], defaults: Mapping[str, object]
) -> FunctionType:  # fmt: skip
    """Return a function with these parameters, whatever their names are, that says it stands where *function* does."""

    def take_arguments() -> object:
        return None

    names, site = tuple(hints), getattr(function, "__code__", take_arguments.__code__)
    code = take_arguments.__code__.replace(
        co_varnames=names, co_nlocals=len(names), co_kwonlyargcount=len(names), co_filename=site.co_filename,
        co_firstlineno=site.co_firstlineno,
    )  # fmt: skip
    declared = FunctionType(code, globals(), "take_arguments")
    marked_hints = {name: Annotated[hint, Secret] for name, hint in hints.items() if name in marked}
    declared.__annotations__ = {**hints, **marked_hints, "return": Hint}  # which is any value
    declared.__kwdefaults__ = {name: defaults[name] for name in names if defaults.get(name, NOTHING) is not NOTHING}
    return declared


def _pass_arguments_on(tool: BaseTool, schema: type[BaseModel]) -> BaseTool:
    """Return a copy of a tool whose class takes what the registry read as it is: read twice, it could be another."""
    passed: dict[str, Hint] = {
        name: (object, FieldInfo(default=item.default, default_factory=item.default_factory))
        for name, item in schema.model_fields.items()
    }
    taking = create_model(schema.__name__, __base__=schema, __module__=schema.__module__, **passed)
    return tool.model_copy(update={"args_schema": taking})


def _list_injected(tool: BaseTool, hints: Mapping[str, Hint]) -> set[str]:
    """Return the parameters that LangGraph would fill in, and no model sees."""
    known = dict(hints)
    if _is_model(tool.args_schema):
        known |= typing.get_type_hints(tool.args_schema, include_extras=True)
    return {name for name, hint in known.items() if _is_injected(hint)}


def _is_injected(hint: object) -> bool:
    parts = [hint, typing.get_origin(hint), *getattr(hint, "__metadata__", ()), *typing.get_args(hint)]
    classes = (part if inspect.isclass(part) else type(part) for part in parts)
    return any(issubclass(part, InjectedToolArg | ToolRuntime) for part in classes)


def _list_lost(tool: BaseTool, function: Callable[..., object], hints: Mapping[str, Hint]) -> set[str]:
    """Return the parameters that LangChain takes for itself, or leaves out of what it passes on."""
    schema = tool.args_schema
    lost = {name for name, hint in hints.items() if unwrap_hint(hint) is RunnableConfig}
    given = inspect.signature(function).parameters.keys()
    if isinstance(tool, StructuredTool | SingleInputTool):  # the parameters of its own method, which calls the function
        lost |= {"self", "config", "run_manager", *({"callbacks"} & given)}
    else:
        lost |= {"self", *({"run_manager"} & given)}
    if _is_model(schema):
        writes_itself = bool(schema.__pydantic_decorators__.model_serializers)  # LangChain asks it for its keys
        lost |= {
            name for name, field in schema.model_fields.items() if writes_itself or field.exclude or field.exclude_if
        }
    elif schema is not None and not isinstance(schema, dict):  # of Pydantic 1, shown by its aliases
        left_out = getattr(schema, "__exclude_fields__", None) or ()
        fields = getattr(schema, "__fields__", {}).items()
        lost |= {field.alias for name, field in fields if name in left_out or name != field.alias}
    return lost


def _list_misread(tool: BaseTool, shown: Set[str]) -> set[str]:
    """
    Return the parameters that the class of the arguments does not read from their own key alone, or writes as another.

    What a model is shown, LangChain names as the class has its fields; what was given goes through their aliases.
    """
    schema = tool.args_schema
    if not _is_model(schema):
        return set()
    if issubclass(schema, RootModel):
        return {"root"}
    config, misread = schema.model_config, set[str]()
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    for name, field in schema.model_fields.items():
        paths = list(_iter_alias_paths(field)) or [[name]]
        is_read = by_name or [name] in paths
        is_written = not config.get("serialize_by_alias") or field.serialization_alias in (None, name)
        if not is_read or not is_written or any(path[0] in shown - {name} for path in paths):
            misread.add(name)
    return misread


def _iter_alias_paths(field: FieldInfo) -> Iterator[list[int | str]]:
    """Yield where a field is read by its aliases; nothing for one without."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [] if alias is None else [alias]
    for choice in choices:
        yield choice.path if isinstance(choice, AliasPath) else [choice]
