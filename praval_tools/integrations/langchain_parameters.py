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
from pydantic import AliasChoices, AliasPath, BaseModel, RootModel, TypeAdapter, create_model
from pydantic.fields import FieldInfo

from praval_tools.errors import ToolDefinitionError
from praval_tools.formats.format import WireObject
from praval_tools.names import describe_error
from praval_tools.schema.class_fields import call_container_factory
from praval_tools.schema.function_defaults import find_defaults_of_wrappers, is_taken
from praval_tools.schema.model_marks import read_model_marks
from praval_tools.schema.schema_tree import close_object_schemas, iter_schemas
from praval_tools.schema.secret_marks import contains_secret_mark, list_field_names
from praval_tools.schema.type_hints import NOTHING, Hint, Secret, unwrap_hint

T = TypeVar("T")

_HARMLESS_SETTINGS: Final = frozenset(
    (
        "title", "extra", "frozen", "populate_by_name", "validate_by_name", "validate_by_alias", "from_attributes",
        "arbitrary_types_allowed", "protected_namespaces", "json_schema_extra", "use_attribute_docstrings",
        "defer_build", "hide_input_in_errors", "validation_error_cause", "regex_engine", "validate_assignment",
        "validate_return", "ser_json_timedelta", "ser_json_temporal", "ser_json_bytes", "ser_json_inf_nan",
        "json_encoders", "serialize_by_alias", "loc_by_alias", "model_title_generator", "field_title_generator",
        "json_schema_mode_override", "json_schema_serialization_defaults_required", "cache_strings", "ignored_types",
        "allow_inf_nan",
    )
)  # fmt: skip
"""Settings of a class that change nothing in how its fields are read; numbers are finite in any case."""
_NEVER_FILLED_IN: Final = frozenset(("args", "kwargs"))
"""Fields whose defaults LangChain does not pass on: it takes them for those of `*args` and `**kwargs`."""


class ToolParameters(NamedTuple):
    """
    What a tool of LangChain takes.

    Args:
        schema: The JSON Schema of what a model gives; None where the hints of *declaration* say it.
        declaration: A function with their hints and defaults, to be read, not called.
        tool: The tool, which takes them as the registry reads them.
        problems: Why a registry could not judge them.
    """

    schema: WireObject | None
    declaration: FunctionType
    tool: BaseTool
    problems: list[str]

    def select_passed(self, arguments: Mapping[str, object]) -> dict[str, object]:
        """
        Return what LangChain is given of the arguments.

        What is the very default that was declared, it fills in itself: as a copy, and unchecked.
        """
        defaults: Mapping[str, object] = getattr(self.declaration, "__kwdefaults__", None) or {}
        return {
            name: value.root if isinstance(value, ClosedArgument) else value
            for name, value in arguments.items()
            if name not in defaults or value is not defaults[name]
        }


class _ArgumentField(NamedTuple):
    """A field of the class of the arguments: its hint, its default, and whether that is made anew for each call."""

    hint: Hint
    default: object
    makes_default: bool


def read_parameters(tool: BaseTool) -> ToolParameters:
    """
    Return what a tool takes.

    Where fields of its class hold classes, their hints say it, as for the registry's own tools: the JSON Schema alone
    does not say what such a class fills in, reads by other names, or marks.

    Raises:
        ToolDefinitionError: It cannot be read.
    """
    try:
        if _is_model(tool.args_schema):
            tool.args_schema.model_rebuild()  # aliases of a generator, and what hints name, are there only after that
        function = _find_function(tool)
        hints = _read_hints(function)
        if problems := _list_unreadable(tool, hints):
            raise ToolDefinitionError(tool.name, problems)
        return _read_parameters(tool, function, hints)
    except ToolDefinitionError:
        raise
    except Exception as error:  # the seam to hints and classes of the program
        reason = f"its arguments cannot be read ({describe_error(error)})"
        fix = "define what its hints name, or wrap its function in one with type hints"
        raise ToolDefinitionError(tool.name, [f"{reason}: {fix}"]) from error


def _list_unreadable(tool: BaseTool, hints: Mapping[str, Hint]) -> list[str]:
    if not (tool.args_schema is None or isinstance(tool.args_schema, dict) or _is_model(tool.args_schema)):
        return ["the class of its arguments is of Pydantic 1, which a registry does not read: make it of Pydantic 2"]
    return [
        f"parameter {name!r} is injected by LangGraph, which a registry cannot do: "
        f"make a tool that takes it from elsewhere, such as ToolContext.deps"
        for name in sorted(_list_injected(tool, hints))
    ]


def _read_parameters(tool: BaseTool, function: Callable[..., object], hints: Mapping[str, Hint]) -> ToolParameters:
    schema, fields = _read_schema(tool), _read_fields(tool)
    shown, unpassed = schema.get("properties", {}).keys(), _list_unpassed(tool, function, hints)
    problems = [
        f"LangChain does not pass its parameter {name!r} on: give it another name, without exclude=True or an alias"
        for name in sorted(shown & (unpassed | _list_misread(tool, shown)))
    ]
    problems += [
        f"the default of its parameter {name!r} is made anew for each call, so nobody can judge it: give it a value"
        for name, field in fields.items()
        if field.makes_default
    ]
    own_defaults = _read_own_defaults(tool, function, hints, shown, unpassed)
    filled_in = {name: field.default for name, field in fields.items() if name not in _NEVER_FILLED_IN}
    unfilled = {name: default for name, default in own_defaults.items() if name not in filled_in}
    if unfilled and _is_wrapped(function):
        tool = _bind_defaults(tool, unfilled)
    defaults = {**own_defaults, **filled_in}
    secret = _list_secret(tool, function, hints, fields, shown)
    if not (_is_model(tool.args_schema) and _has_classes(schema, fields)):
        names = (*defaults, *sorted(secret))
        declaration = _declare(function, dict.fromkeys(names, object), secret, defaults)
        return ToolParameters(schema, declaration, tool, problems)
    problems += [
        f"the class of its arguments lacks the function's parameter {name!r}, so nobody can judge its default: "
        f"add a field to the class"
        for name in sorted(own_defaults.keys() - fields.keys())
    ]
    problems += [
        f"{subject} of the class of its arguments would be ignored where fields hold classes, since the registry reads "
        f"these itself: {fix}"
        for subject, fix in _list_changes_of_reading(tool.args_schema)
    ]
    declaration = _declare(function, {name: field.hint for name, field in fields.items()}, secret, defaults)
    return ToolParameters(None, declaration, _pass_arguments_on(tool, tool.args_schema), problems)


def _is_model(schema: object) -> typing.TypeGuard[type[BaseModel]]:
    return isinstance(schema, type) and issubclass(schema, BaseModel)


def is_async(tool: BaseTool) -> bool:
    """Tell whether a tool is to be awaited."""
    if isinstance(tool, StructuredTool | SingleInputTool):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


def _find_function(tool: BaseTool) -> Callable[..., object]:
    if isinstance(tool, StructuredTool | SingleInputTool):
        function = tool.coroutine or tool.func  # as LangChain chooses in `arun`
        if function is not None:
            return function
    return tool._arun if is_async(tool) else tool._run


def _unwrap_partials(function: Callable[..., object]) -> tuple[Callable[..., object], set[str]]:
    """Return the function itself, and the names of the arguments that partials of it bind."""
    names = set[str]()
    while isinstance(function, partial):
        names, function = names | function.keywords.keys(), function.func
    return function, names


def _read_hints(function: Callable[..., object]) -> dict[str, Hint]:
    function, _ = _unwrap_partials(function)
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
        schema = close_object_schemas(TypeAdapter(schema).json_schema(), keeps_open=False)
        for name in _NEVER_FILLED_IN & schema.get("properties", {}).keys():
            schema["properties"][name].pop("default", None)
    return {key: value for key, value in schema.items() if key not in ("title", "description")}


def _read_fields(tool: BaseTool) -> dict[str, _ArgumentField]:
    """Return the fields of the class of the arguments by the names that a model gives; none where there is none."""
    schema = tool.args_schema
    if not _is_model(schema):
        return {}
    return {name: _read_field(name, info) for name, info in schema.model_fields.items()}


def _read_field(name: str, info: FieldInfo) -> _ArgumentField:
    annotation: Hint = info.annotation
    hint = Annotated[annotation, info]
    if info.is_required() or name in _NEVER_FILLED_IN:
        return _ArgumentField(hint, NOTHING, False)
    if info.default_factory is None:
        return _ArgumentField(hint, info.default, False)
    default = call_container_factory(info.default_factory)
    return _ArgumentField(hint, default, default is NOTHING)


def _has_classes(schema: WireObject, fields: Mapping[str, _ArgumentField]) -> bool:
    """Tell whether fields of the class of the arguments hold classes with fields."""
    if any(list_field_names(field.hint) for field in fields.values()):
        return True
    return any("properties" in part for part in iter_schemas(schema) if part is not schema)


def _list_changes_of_reading(schema: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yield what makes a class read its fields in another way than their hints say, each with its fix."""
    decorators = schema.__pydantic_decorators__
    for group in (
        decorators.model_validators, decorators.field_validators, decorators.root_validators, decorators.validators,
    ):  # fmt: skip
        for name, validator in group.items():
            if getattr(validator.info, "mode", "") != "after":
                yield f"the validator {name!r}", "give it mode='after'"
    for name, value in schema.model_config.items():
        if value and name not in _HARMLESS_SETTINGS:
            yield f"the setting {name!r}", "remove it, or set it on the inner classes"
    for name, info in schema.model_fields.items():
        if info.validate_default:
            yield f"validate_default of the field {name!r}", "give it a default that is valid"


class ClosedArgument(RootModel[T]):
    """A value with classes that take members of any name, without these: only those of the schema are judged."""

    @classmethod
    def model_json_schema(cls, *args: Hint, **keywords: Hint) -> WireObject:
        """Return the JSON Schema with its objects closed."""
        schema: WireObject = close_object_schemas(super().model_json_schema(*args, **keywords), keeps_open=False)
        return schema


def _close(hint: Hint) -> type[ClosedArgument[object]]:
    return ClosedArgument[hint]


def _takes_any_member(hint: Hint) -> bool:
    """Tell whether classes in *hint* take members of any name, by which they may read their fields."""
    if not list_field_names(hint):
        return False
    parts = iter_schemas(RootModel[hint].model_json_schema())
    return any("properties" in part and part.get("additionalProperties", False) is not False for part in parts)


def _read_own_defaults(
    tool: BaseTool, function: Callable[..., object], hints: Mapping[str, Hint], shown: Set[str], unpassed: Set[str]
) -> dict[str, object]:
    """
    Return the defaults of the function itself, without those of what LangChain gives it.

    Where it has none, but a wrapper has, that counts. What a partial binds is the function's business, unless a model
    may give it.
    """
    parameters = list(inspect.signature(function).parameters.values())
    given = {item.name for item in parameters if _is_passed_by_langchain(item, hints)}
    if isinstance(tool, SingleInputTool):  # LangChain gives it its first argument by its place
        given |= {item.name for item in parameters[:1]}
    _, bound = _unwrap_partials(function)
    own = {
        item.name: item.default
        for item in parameters
        if item.default is not item.empty
        and is_taken(function, item.name, shown)
        and (item.name in shown or item.name not in bound)
    }
    names = shown | {item.name for item in parameters}
    return {
        name: value
        for name, value in (find_defaults_of_wrappers(function, names, shown) | own).items()
        if name not in given and (name not in unpassed or value is not None)  # LangChain leaves it to the function
    }


def _is_wrapped(function: Callable[..., object]) -> bool:
    """Tell whether what runs may have other defaults than what was read of it."""
    function, _ = _unwrap_partials(function)
    called = (function,) if inspect.isroutine(function) else (function, inspect.getattr_static(function, "__call__"))
    return any(hasattr(item, name) for item in called for name in ("__wrapped__", "__signature__"))


def _bind_defaults(tool: BaseTool, defaults: Mapping[str, object]) -> BaseTool:
    """
    Return a copy of a tool whose function is passed these defaults where nothing is given.

    Raises:
        ToolDefinitionError: It calls a method of its class, which nothing can be passed to.
    """
    if not isinstance(tool, StructuredTool | SingleInputTool):
        names = ", ".join(map(repr, defaults))
        reason = f"its method is wrapped, and the wrapper may have another default of {names}, so nobody can judge it"
        raise ToolDefinitionError(tool.name, [f"{reason}: call what wraps it in the method"])
    name = "func" if tool.coroutine is None else "coroutine"
    return tool.model_copy(update={name: partial(getattr(tool, name), **defaults)})


def _is_passed_by_langchain(parameter: inspect.Parameter, hints: Mapping[str, Hint]) -> bool:
    """Tell whether LangChain passes a value of its own, so that the default of a parameter is not used."""
    hint = hints.get(parameter.name)
    return parameter.name == "callbacks" or RunnableConfig in (unwrap_hint(hint), *typing.get_args(hint))


def _list_secret(
    tool: BaseTool, function: Callable[..., object], hints: Mapping[str, Hint], fields: Mapping[str, _ArgumentField],
    shown: Set[str],
) -> set[str]:  # fmt: skip
    """Return what the function or the class marks as secret, without what only classes inside of that mark."""
    names = set[str]()
    for name, hint in hints.items():
        is_same = name in fields and unwrap_hint(hint) == unwrap_hint(fields[name].hint)
        if contains_secret_mark(hint, looks_into_classes=not is_same):
            names.add(name)
    parameters = inspect.signature(function).parameters
    if isinstance(tool, SingleInputTool) and next(iter(parameters), None) in names:
        names |= shown
    if any(item.kind is item.VAR_KEYWORD and item.name in names for item in parameters.values()):
        names |= shown - parameters.keys()
    if _is_model(tool.args_schema):
        marks = read_model_marks(tool.args_schema)
        names |= fields.keys() if marks.is_whole else fields.keys() & marks.outer_names
    return names


def _declare(
    function: Callable[..., object], hints: Mapping[str, Hint], secret: Set[str], defaults: Mapping[str, object]
) -> FunctionType:  # fmt: skip
    """Return a function with these parameters, whatever their names are, that stands where *function* does."""

    def take_arguments() -> object:
        return None

    names, annotations, used_defaults = tuple(hints), dict[str, Hint](), dict[str, object]()
    for name, hint in hints.items():
        default = defaults.get(name, NOTHING)
        if _takes_any_member(hint):
            closed = _close(hint.__origin__)
            hint = Annotated[(closed, *hint.__metadata__)]
            default = default if default is NOTHING else closed.model_construct(default)
        annotations[name] = Annotated[hint, Secret] if name in secret else hint
        if default is not NOTHING:
            used_defaults[name] = default
    site = getattr(_unwrap_partials(function)[0], "__code__", take_arguments.__code__)
    code = take_arguments.__code__.replace(
        co_varnames=names, co_nlocals=len(names), co_kwonlyargcount=len(names), co_filename=site.co_filename,
        co_firstlineno=site.co_firstlineno,
    )  # fmt: skip
    declaration = FunctionType(code, globals(), "take_arguments")
    declaration.__annotations__ = {**annotations, "return": Hint}  # which is any value
    declaration.__kwdefaults__ = used_defaults
    return declaration


def _pass_arguments_on(tool: BaseTool, schema: type[BaseModel]) -> BaseTool:
    """Return a copy of a tool whose class takes what the registry read as it is: read twice, it could be another."""
    fields: dict[str, Hint] = {
        name: (object, FieldInfo(default=item.default, default_factory=item.default_factory))
        for name, item in schema.model_fields.items()
    }
    copied = create_model(schema.__name__, __base__=schema, __module__=schema.__module__, **fields)
    return tool.model_copy(update={"args_schema": copied})


def _list_injected(tool: BaseTool, hints: Mapping[str, Hint]) -> set[str]:
    """Return the parameters that LangGraph would fill in, and no model sees."""
    names = {name for name, hint in hints.items() if _is_injected(hint)}
    if _is_model(tool.args_schema):
        fields = tool.args_schema.model_fields
        names |= {name for name, info in fields.items() if any(map(_is_injected, (info.annotation, *info.metadata)))}
    return names


def _is_injected(hint: object) -> bool:
    parts = [hint, typing.get_origin(hint), *getattr(hint, "__metadata__", ()), *typing.get_args(hint)]
    classes = (part if inspect.isclass(part) else type(part) for part in parts)
    return any(issubclass(part, InjectedToolArg | ToolRuntime) for part in classes)


def _list_unpassed(tool: BaseTool, function: Callable[..., object], hints: Mapping[str, Hint]) -> set[str]:
    """Return the parameters that LangChain takes for itself, or leaves out of what it passes on."""
    schema = tool.args_schema
    names = {name for name, hint in hints.items() if unwrap_hint(hint) is RunnableConfig}
    given = inspect.signature(function).parameters.keys()
    if isinstance(tool, StructuredTool | SingleInputTool):  # the parameters of its own method, which calls the function
        names |= {"self", "config", "run_manager", *({"callbacks"} & given)}
    else:
        names |= {"self", *({"run_manager"} & given)}
    if _is_model(schema):
        writes_itself = bool(schema.__pydantic_decorators__.model_serializers)  # LangChain asks it for its keys
        names |= {
            name for name, field in schema.model_fields.items() if writes_itself or field.exclude or field.exclude_if
        }
    return names


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
    config, names = schema.model_config, set[str]()
    by_name = config.get("populate_by_name") or config.get("validate_by_name")
    for name, field in schema.model_fields.items():
        paths = list(_iter_alias_paths(field)) or [[name]]
        is_read = by_name or [name] in paths
        is_written = not config.get("serialize_by_alias") or field.serialization_alias in (None, name)
        if not is_read or not is_written or any(path[0] in shown - {name} for path in paths):
            names.add(name)
    return names


def _iter_alias_paths(field: FieldInfo) -> Iterator[list[int | str]]:
    """Yield where a field is read by its aliases; nothing for one without."""
    alias = field.validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else [] if alias is None else [alias]
    for choice in choices:
        yield choice.path if isinstance(choice, AliasPath) else [choice]
