"""Reads and checks the definitions of tools that an MCP server lists, one by one: a bad one costs no other."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Final

from attrs import define, field, frozen

from praval_tools.errors import InvalidNameError
from praval_tools.integrations.foreign_text import clean_schema, clean_text, quote_name, repair_name
from praval_tools.integrations.tool_changes import Listing
from praval_tools.names import check_tool_name, get_collision_keys
from praval_tools.schema.json_values import iter_json_problems, to_canonical_json
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.supplied_schema import check_supplied_schema

CONTEXT_PARAMETER: Final = "praval_tools_context"
"""The parameter by which the function of an imported tool gets its context; no tool may have one of this name."""

MAX_DEFINITION_BYTES: Final = 1_048_576
_WARNINGS: Final = {
    "readOnlyHint": ("read_only", False), "destructiveHint": ("destructive", True),
    "idempotentHint": ("idempotent", False), "openWorldHint": ("open_world", True),
}  # fmt: skip
"""Hint → its field of `ToolMetadata`, and the value with which it warns."""


@frozen(kw_only=True)
class McpToolDefinition:
    """
    A tool as its server lists it.

    Args:
        name: Its name here.
        remote_name: Its name there.
        title: For people.
        description: What a model reads.
        parameters: The JSON Schema of its arguments.
        result_schema: That of its structured result, if it says one that can be used.
        hints: What the server says of its effects, which nobody has checked.
        digest: Equal exactly where all of this is equal.
    """

    name: str
    remote_name: str
    title: str
    description: str
    parameters: JsonSchema
    result_schema: JsonSchema | None
    hints: Mapping[str, bool]
    digest: str

    @property
    def effects(self) -> Mapping[str, bool]:
        """Of the hints those that warn: a server cannot make its own tools harmless or repeatable."""
        return {name: value for hint, (name, value) in _WARNINGS.items() if self.hints.get(hint) is value}


class RefusedDefinitionError(Exception):
    """A tool that a server lists cannot be taken in; the text says why."""


@define
class McpListing(Listing[McpToolDefinition]):
    """
    What a server lists.

    Args:
        version: The version of the server.
    """

    version: str = ""


@frozen(kw_only=True)
class ToolSelection:
    """
    Which tools of a server are taken, and what they are called here.

    Args:
        namespace: The prefix of their names here.
        include: Only the tools of these names there; empty: all.
        exclude: But not those of these names.
        names: The names here of tools that get no prefix, by their names there.
    """

    namespace: str
    include: frozenset[str] = frozenset()
    exclude: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(factory=dict)

    def has(self, remote_name: object) -> bool:
        """Tell whether a tool is taken."""
        return remote_name not in self.exclude and (not self.include or remote_name in self.include)

    def build_name(self, remote_name: str) -> str:
        """
        Return what a tool is called here.

        Raises:
            RefusedDefinitionError: No name can be made of its own.
        """
        return self.names.get(remote_name) or _build_name(remote_name, self.namespace)


def read_definitions(items: Iterable[object], selection: ToolSelection, secrets: Sequence[str] = ()) -> McpListing:
    """Return what can be used of the tools that a server lists, *items* as they came; their texts hold no *secrets*."""
    listing, names_by_key, include = McpListing(), dict[str, str](), selection.include
    for item in items:
        remote_name = item.get("name") if isinstance(item, dict) else None
        if not selection.has(remote_name):
            continue
        try:
            definition = read_definition(item, selection, listing.problems, secrets)
            for key in get_collision_keys(definition.name):
                if (other := names_by_key.setdefault(key, definition.remote_name)) != definition.remote_name:
                    rival = quote_name(other)
                    raise RefusedDefinitionError(f"its name differs from {rival} only by case, '-', '_' or '.'")
            if definition.name in listing.definitions:
                raise RefusedDefinitionError("it is listed twice")
        except RefusedDefinitionError as error:
            listing.problems.append(f"Tool {quote_name(remote_name)} is left out: {error}.")
        else:
            listing.definitions[definition.name] = definition
    unknown = sorted(filter(None, include - {definition.remote_name for definition in listing.definitions.values()}))
    listing.problems.extend(f"Tool {quote_name(name)} is to be included, and is not there." for name in unknown)
    return listing


def read_definition(
    item: object, selection: ToolSelection, problems: list[str], secrets: Sequence[str] = ()
) -> McpToolDefinition:
    """
    Return a tool that a server lists, with what is wrong with it added to *problems*.

    Raises:
        RefusedDefinitionError: It cannot be used.
    """
    if not isinstance(item, dict) or not isinstance(remote_name := item.get("name"), str):
        raise RefusedDefinitionError("it has no name")
    for _, reason, _ in iter_json_problems(item):
        raise RefusedDefinitionError(f"its definition {reason}")
    if len(to_canonical_json(item)) > MAX_DEFINITION_BYTES:
        raise RefusedDefinitionError(f"its definition has more than {MAX_DEFINITION_BYTES:,} characters")
    name = selection.build_name(remote_name)
    annotations = item.get("annotations")
    annotations = annotations if isinstance(annotations, dict) else {}
    texts = {"title": item.get("title") or annotations.get("title"), "description": item.get("description")}
    cleaned = {key: clean_text(text, secrets) if isinstance(text, str) else "" for key, text in texts.items()}
    altered = [key for key, text in texts.items() if isinstance(text, str) and text != cleaned[key]]
    if altered:
        problems.append(f"Tool {name!r}: its {' and '.join(altered)} held control characters, which were taken out.")
    parameters = _read_parameters(item.get("inputSchema"), secrets)
    result_schema = _read_result_schema(name, item.get("outputSchema"), problems, secrets)
    hints = {hint: value for hint in _WARNINGS if isinstance(value := annotations.get(hint), bool)}
    whole = {**cleaned, "name": remote_name, "parameters": parameters, "result": result_schema, "hints": hints}
    return McpToolDefinition(
        name=name, remote_name=remote_name, title=cleaned["title"],
        description=cleaned["description"].strip() or cleaned["title"] or name, parameters=parameters,
        result_schema=result_schema, hints=hints, digest=sha256(to_canonical_json(whole).encode()).hexdigest(),
    )  # fmt: skip


def _build_name(remote_name: str, namespace: str) -> str:
    repaired = repair_name(remote_name)
    if repaired is None:
        raise RefusedDefinitionError("its name holds other characters than those of printable ASCII")
    try:
        return check_tool_name(f"{namespace}-{repaired}")
    except InvalidNameError:
        raise RefusedDefinitionError(f"its name is too long, with {namespace!r} before it") from None


def _read_parameters(schema: object, secrets: Sequence[str]) -> JsonSchema:
    checked, problems = check_supplied_schema(clean_schema(schema, secrets) if isinstance(schema, dict) else schema)
    if problems:
        raise RefusedDefinitionError(f"its arguments cannot be checked: {'; '.join(problems)}")
    if CONTEXT_PARAMETER in checked.get("properties", {}):
        raise RefusedDefinitionError(f"its parameter {CONTEXT_PARAMETER!r} has a name that is taken here")
    return checked


def _read_result_schema(name: str, schema: object, problems: list[str], secrets: Sequence[str]) -> JsonSchema | None:
    if schema is None:
        return None
    cleaned = clean_schema(schema, secrets) if isinstance(schema, dict) else schema
    checked, reasons = check_supplied_schema(cleaned) if cleaned else ({}, ("it is empty",))
    if not reasons:
        return checked
    problems.append(f"Tool {name!r}: its outputSchema is left out: {'; '.join(reasons)}.")
    return None
