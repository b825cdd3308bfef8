"""Tools whose function is found at its first use: name, description and schema are known without it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, cast

from praval_tools.errors import ToolDefinitionError
from praval_tools.schema.docstrings import find_docstring
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.signature import Signature, read_signature
from praval_tools.schema.supplied_schema import find_injected_names
from praval_tools.tools.context import ToolContext
from praval_tools.tools.implementation import ToolImplementation
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.source import DeclarationSite
from praval_tools.tools.tool import AnyTool, Tool

FunctionLoader = Callable[[], Callable[..., object]]
"""Returns the function of a tool; it does not raise: of one that is missing it returns one that says so."""

_DEFERRED_FIELDS: Final = ("function", "signature", "docstring")


class DeferredImplementation(ToolImplementation):
    """An implementation whose function, signature and docstring are there from their first use on."""

    load: FunctionLoader | None = None

    def list_marked_names(self) -> frozenset[str]:
        """Return nothing: the function is not imported for its schema."""
        return frozenset()

    def __getattr__(self, name: str) -> object:  # asked for what has no value yet
        if name not in _DEFERRED_FIELDS or self.load is None:
            raise AttributeError(name)
        function = self.load()
        self.signature = read_signature(function, strict=False, context_types=(ToolContext,))
        self.docstring = find_docstring(function)
        problems = tuple(find_injected_names(self.supplied_schema or {}, self.signature))
        self.function = _make_refusal(self.name, problems) if problems else function
        return object.__getattribute__(self, name)


def _make_refusal(name: str, problems: Sequence[str]) -> Callable[..., object]:
    """Return a function that says what is wrong with a tool."""

    def refuse(**_: object) -> object:
        raise ToolDefinitionError(name, problems)

    return refuse


def make_deferred_tool(
    name: str, schema: JsonSchema, metadata: ToolMetadata, load: FunctionLoader, site: DeclarationSite
) -> AnyTool:
    """Return a tool that calls *load* at its first use; *schema* is what `check_supplied_schema` made of its own."""
    implementation = DeferredImplementation(
        load, name, metadata, cast("Signature", None), site, supplied_schema=schema, discoverable=False, load=load
    )
    for field in _DEFERRED_FIELDS:
        delattr(implementation, field)
    tool = cast("AnyTool", object.__new__(Tool))
    tool.__dict__.update(
        name=name, metadata=metadata, namespace=None, method_name=None, implementation=implementation,
        __name__=name, __qualname__=site.qualname, __module__=site.module, __doc__=metadata.description,
    )  # fmt: skip
    return tool
