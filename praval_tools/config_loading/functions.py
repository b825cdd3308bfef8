"""The tools that are functions of modules: made of their entries, and imported at the first call."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import Context
from importlib import import_module

from attrs import NOTHING, frozen

from praval_tools.config.system import ToolConfig
from praval_tools.config_loading.checks import METADATA_KEYS
from praval_tools.config_loading.declarations import Located
from praval_tools.errors import ConfigProblem
from praval_tools.names import describe_error, get_class_name, suggest_names
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.signature import read_signature
from praval_tools.tools.context import ToolContext
from praval_tools.tools.deferred import make_deferred_tool
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.source import DeclarationSite, Source
from praval_tools.tools.tool import AnyTool, Tool

OPEN_SCHEMA: JsonSchema = {"type": "object", "properties": {}}
"""The schema of a tool whose function, of which it would be derived, cannot be imported."""


class FunctionImportError(Exception):
    """A function cannot be imported; the text says what is missing."""


@frozen
class FunctionReference:
    """
    A function, by the names of its module and of itself.

    Args:
        module: The module.
        name: The name in it; a dotted one goes through classes.
    """

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}:{self.name}"

    def find(self) -> Callable[..., object]:
        """
        Import the module, as the program itself, and return the function.

        Raises:
            FunctionImportError: There is no such module or function, or importing it fails.
        """
        try:
            value: object = Context().run(import_module, self.module)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # the seam to the user's modules: whatever they raise is reported
            raise FunctionImportError(f"module {self.module!r} cannot be imported: {_describe(error)}") from error
        for part in self.name.split("."):
            try:
                value = getattr(value, part)
            except AttributeError:
                known = [name for name in vars(sys.modules[self.module]) if not name.startswith("_")]
                hint = suggest_names(part, known)
                raise FunctionImportError(f"module {self.module!r} has no function {self.name!r}.{hint}") from None
            except Exception as error:  # the seam to a module's own __getattr__
                text = f"module {self.module!r} cannot give its {self.name!r}: {_describe(error)}"
                raise FunctionImportError(text) from error
        if isinstance(value, Tool):
            value = value.function
        if not callable(value) or isinstance(value, type):
            raise FunctionImportError(f"{self.name!r} in module {self.module!r} is not a function")
        return value

    def load(self) -> Callable[..., object]:
        """Return the function; where it cannot be imported, one whose calls fail and say why."""
        try:
            return self.find()
        except FunctionImportError as error:
            text = str(error)

        return _MissingFunction(text)


@frozen
class _MissingFunction:
    """Stands in for a function that cannot be imported; its calls fail and say why."""

    reason: str

    def __call__(self, **arguments: object) -> object:
        raise FunctionImportError(self.reason)


def is_missing_function(tool: AnyTool) -> bool:
    """Tell whether a tool was used, or was to be read, and its function could not be imported."""
    try:
        function: object = object.__getattribute__(tool.implementation, "function")  # without an import
    except AttributeError:
        return False
    return isinstance(function, _MissingFunction)


def _describe(error: BaseException) -> str:
    return f"{get_class_name(type(error))}: {describe_error(error)}"[:400]


def build_function_tool(entry: Located[ToolConfig], schema: JsonSchema | None) -> AnyTool:
    """
    Return the tool of an entry of `tools`.

    With a description and a schema, its module is imported at the first call; else now, for what they leave open.

    Args:
        entry: The entry.
        schema: Its schema, checked; None where it has none.

    Raises:
        ToolDefinitionError: The function has problems, such as a parameter without a type hint.
    """
    value = entry.value
    reference = FunctionReference(str(value.module), str(value.function))
    fields: dict[str, object] = {
        name: field for name in METADATA_KEYS if (field := getattr(value, name)) is not None and name != "description"
    }
    fields["source"] = entry.build_source()
    if value.description is not None and schema is not None:
        return _build_deferred(value, reference, schema, fields, value.description)
    try:
        return _build_eagerly(value, reference, schema, fields)
    except FunctionImportError as error:
        return _build_deferred(value, reference, schema or OPEN_SCHEMA, fields, value.description or str(error))


def _build_eagerly(
    value: ToolConfig, reference: FunctionReference, schema: JsonSchema | None, fields: dict[str, object]
) -> AnyTool:
    function = reference.find()
    metadata = ToolMetadata(value.name, **fields)  # type: ignore[arg-type]
    if schema is not None:
        tool: AnyTool = Tool(value.name, value.description, schema, function, metadata=metadata)
    else:
        tool = Tool.from_function(function, value.name, value.description, metadata=metadata)
    tool.implementation.discoverable = False
    return tool


def _build_deferred(
    value: ToolConfig, reference: FunctionReference, schema: JsonSchema, fields: dict[str, object], description: str
) -> AnyTool:
    metadata = ToolMetadata(value.name, description=description, **fields)  # type: ignore[arg-type]
    source = metadata.source or Source()
    site = DeclarationSite(source, None, reference.module, reference.name, False, reference.module)
    return make_deferred_tool(value.name, schema, metadata, reference.load, site)


def find_function_problems(entry: Located[ToolConfig], schema: JsonSchema | None) -> list[ConfigProblem]:
    """Return why the function of an entry cannot be imported, if it cannot; else where its schema does not fit it."""
    value = entry.value
    if not value.module or not value.function:
        return []
    try:
        function = FunctionReference(value.module, value.function).find()
    except FunctionImportError as error:
        return [entry.build_problem(str(error), "module")]
    if schema is None:
        return []
    key = "inputSchema" if value.parameters_schema is None else "parameters_schema"
    return [entry.build_problem(problem, key) for problem in _find_misfits(function, value.function, schema)]


def _find_misfits(function: Callable[..., object], name: str, schema: JsonSchema) -> Iterator[str]:
    """Yield which arguments that the schema permits the function cannot take."""
    parameters = read_signature(function, strict=False, context_types=(ToolContext,)).parameters
    accepted = {parameter.name: parameter for parameter in parameters if parameter.kind == "normal"}
    if not any(parameter.kind == "extra" for parameter in parameters):
        for argument in schema.get("properties", {}):
            if argument not in accepted:
                yield f"function {name!r} has no parameter {argument!r}.{suggest_names(argument, accepted)}"
    for argument, parameter in accepted.items():
        if parameter.default is NOTHING and argument not in schema.get("required", ()):
            yield f"function {name!r} needs {argument!r}, and the schema does not require it"
