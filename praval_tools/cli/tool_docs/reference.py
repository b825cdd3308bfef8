"""What a reference of tools says of each: read from a registry, the same whatever the order of declaration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from attrs import frozen

from praval_tools import Grant, ToolRegistry
from praval_tools.access.queries import list_permitting_resolutions
from praval_tools.access.records import Principal
from praval_tools.cli.common import JsonObject
from praval_tools.cli.tool_docs.schema_text import (
    SchemaRedactor,
    describe_constraints,
    describe_type,
    marks_secrets,
    to_json_text,
)
from praval_tools.execution.limits import Limit
from praval_tools.names import format_count
from praval_tools.registry.registry import get_runtime
from praval_tools.report.access_matrix import list_agents
from praval_tools.schema.secret_marks import contains_secret_mark
from praval_tools.tools.decision import Decision
from praval_tools.tools.frames import activate_tool_frame
from praval_tools.tools.metadata import ToolMetadata
from praval_tools.tools.tool import AnyTool
from praval_tools.tools.value_codec import is_plain_json

_HINTS: Final = ("read_only", "destructive", "idempotent", "open_world")


@frozen(kw_only=True)
class ParameterDescription:
    """
    What is said of one parameter.

    Args:
        name: Its name.
        type: In words.
        presence: `required`, `optional`, or its default.
        constraints: What else must hold, in words.
        description: For models.
        examples: As JSON.
    """

    name: str
    type: str
    presence: str
    constraints: tuple[str, ...]
    description: str
    examples: tuple[str, ...]

    @property
    def summary(self) -> str:
        """Type, presence and constraints in one line."""
        return ", ".join((self.type, self.presence, *self.constraints))


@frozen(kw_only=True)
class ToolDescription:
    """
    What is said of one tool.

    Args:
        name: Its name.
        owner: Who owns it; None: nobody.
        category: Its category.
        description: For models.
        facts: Names and values: risk, effects, limits, version, tags, source.
        parameters: In order of declaration.
        parameters_schema: JSON Schema of the arguments, without secrets.
        result_schema: JSON Schema of the result, where there is one.
        examples: Arguments of calls, each as JSON.
        callers: Every agent that may call it, with the rule and its conditions in words.
        disabled: Why no agent may call it; empty where it is enabled.
    """

    name: str
    owner: str | None
    category: str
    description: str
    facts: dict[str, str]
    parameters: tuple[ParameterDescription, ...]
    parameters_schema: JsonObject
    result_schema: JsonObject | None
    examples: tuple[str, ...]
    callers: dict[str, str]
    disabled: str


@frozen
class ToolReference:
    """The tools of a registry, by name, and how many agents there are."""

    title: str
    tools: tuple[ToolDescription, ...]
    agent_count: int


def read_reference(registry: ToolRegistry) -> ToolReference:
    """Return what the registry says now of each of its tools."""
    agents = list(list_agents(registry))
    redactor = SchemaRedactor(get_runtime(registry).options.secrets)
    callers = _find_callers(registry, agents, redactor)
    limits = registry.limits.all()
    entries = [
        _read_tool(registry, tool, callers.get(tool.name, {}), limits, redactor)
        for tool in sorted(registry.list_all_tools(), key=lambda tool: tool.name)
    ]
    title = f"Tools of {registry.name}" if registry.name else "Tools"
    return ToolReference(title, tuple(entries), len(agents))


def _find_callers(
    registry: ToolRegistry, agents: Iterable[str], redactor: SchemaRedactor
) -> dict[str, dict[str, str]]:  # fmt: skip
    """Return for each tool who may call it; the resolver that decides calls says so."""
    state, now = registry.state, get_runtime(registry).clock.now()
    callers: dict[str, dict[str, str]] = {}
    for agent in sorted(agents):
        for resolution in list_permitting_resolutions(state, Principal(agent), now):
            decision = resolution.decision
            tool = state.tools[decision.tool].tool
            callers.setdefault(decision.tool, {})[agent] = _describe_permission(decision, tool, redactor)
    return callers


def _describe_permission(decision: Decision, tool: AnyTool, redactor: SchemaRedactor) -> str:
    """
    Return the rule, and the terms of a grant; of a tool with secret arguments only that these have bounds.

    Neither its moments nor what is left of it: they differ from one start of the program to the next.
    """
    grant = decision.source
    if not isinstance(grant, Grant):
        return decision.rule
    terms = [f"by {grant.by}"]
    terms += [f"at most {format_count(grant.max_calls, 'call')}"] if grant.max_calls is not None else []
    terms += ["for a limited time"] if grant.expires is not None else []
    if grant.where is not None:
        bounds = f"where {to_json_text(redactor.redact_value(dict(grant.where)))}"
        terms.append("with bounds on its arguments" if marks_secrets(tool) else bounds)
    terms += ["may be lent on"] if grant.delegable else []
    return f"{decision.rule} {', '.join(terms)}"


def _read_tool(
    registry: ToolRegistry, tool: AnyTool, callers: dict[str, str], limits: Sequence[Limit], redactor: SchemaRedactor
) -> ToolDescription:  # fmt: skip
    meta = tool.metadata
    is_readable = tool.implementation.is_compilable
    schema = redactor.redact_arguments_schema(tool) if is_readable else {}
    result = tool.result_schema if is_readable else None
    result = None if result is None else redactor.redact_schema(result)
    defaults = _read_hidden_defaults(tool, redactor) if is_readable else {}
    parameters = tuple(_iter_parameters(schema, defaults))
    off = registry.state.find_disabled_record(tool)
    return ToolDescription(
        name=tool.name,
        owner=meta.owned_by,
        category=meta.category,
        description=tool.description,
        facts={name: value for name, value in _iter_facts(tool, limits, result) if value},
        parameters=parameters,
        parameters_schema=schema,
        result_schema=result,
        examples=_list_examples(schema, parameters),
        callers=callers,
        disabled="" if off is None else f"{off.kind} {off.name} is disabled",
    )


def _read_hidden_defaults(tool: AnyTool, redactor: SchemaRedactor) -> JsonObject:
    """Return the defaults of a function, which its schema leaves out where a part is secret, without such parts."""
    if tool.implementation.supplied_schema is not None:
        return {}
    with activate_tool_frame(tool.name):  # classes in its hints may have code of their own
        parameters = [item for item in tool.implementation.signature.parameters if not contains_secret_mark(item.hint)]
    defaults = {item.name: item.default for item in parameters if item.kind == "normal"}
    shown = {name: value for name, value in defaults.items() if value is not None and is_plain_json(value)}
    redacted = redactor.redact_value(shown)
    assert isinstance(redacted, dict)
    return redacted


def _iter_parameters(schema: JsonObject, defaults: JsonObject) -> Iterable[ParameterDescription]:
    required = schema.get("required", ())
    for name, inner in schema.get("properties", {}).items():
        if inner is False:  # nobody can give it
            continue
        known = inner if isinstance(inner, dict) else {}
        shown = {**defaults, **({name: known["default"]} if "default" in known else {})}
        default = f"default {to_json_text(shown[name])}" if name in shown else "optional"
        examples = known.get("examples")
        yield ParameterDescription(
            name=name,
            type=describe_type(inner),
            presence="required" if name in required else default,
            constraints=tuple(describe_constraints(inner)),
            description=str(known.get("description", "")),
            examples=tuple(map(to_json_text, examples)) if isinstance(examples, list) else (),
        )


def _list_examples(schema: JsonObject, parameters: Sequence[ParameterDescription]) -> tuple[str, ...]:
    """Return the examples of the schema; without any, one made of those of the parameters, if it is complete."""
    examples = schema.get("examples")
    if isinstance(examples, list) and examples:
        return tuple(to_json_text(example, indent=2) for example in examples)
    required = [parameter for parameter in parameters if parameter.presence == "required"]
    if not any(parameter.examples for parameter in parameters) or not all(parameter.examples for parameter in required):
        return ()
    members = ((to_json_text(parameter.name), parameter.examples[0]) for parameter in parameters if parameter.examples)
    return ("{" + ", ".join(f"{name}: {example}" for name, example in members) + "}",)


def _iter_facts(
    tool: AnyTool, limits: Sequence[Limit], result_schema: JsonObject | None
) -> Iterable[tuple[str, str]]:  # fmt: skip
    meta = tool.metadata
    yield "title", meta.title
    yield "access", ", ".join(name for name in ("shared", "private") if getattr(meta, name))
    yield "risk", meta.risk_level
    reason = f": {meta.approval_reason}" if meta.approval_reason else ""
    yield "approval", f"every call waits for a person{reason}" if meta.requires_approval else ""
    yield "effects", ", ".join(_iter_effects(meta))
    yield "limits", "; ".join(_iter_limits(tool.name, meta, limits))
    if not tool.implementation.is_compilable:
        yield "problem", "a type hint is unresolved: praval-tools check says which"
    elif result_schema is not None:
        yield "returns", describe_type(result_schema)
    yield "runs", "async" if tool.is_async else ""
    yield "tags", ", ".join(sorted(meta.tags))
    yield "version", meta.version
    yield "author", meta.author
    yield "source", describe_source(tool)


def _iter_effects(meta: ToolMetadata) -> Iterable[str]:
    """Yield what it says of its effects; what it does not say is unknown."""
    for name in _HINTS:
        value = getattr(meta, name)
        if value is not None:
            yield f"{'' if value else 'not '}{name.replace('_', '-')}"
    if meta.safety != "native":
        yield f"its code is {meta.safety}"


def _iter_limits(name: str, meta: ToolMetadata, limits: Sequence[Limit]) -> Iterable[str]:
    if meta.timeout is not None:
        yield f"given up after {meta.timeout:g} s"
    if meta.retries is not None:
        yield f"retried {format_count(meta.retries, 'time')}"
    if meta.retry_on:
        yield f"retried on {', '.join(sorted(kind.__name__ for kind in meta.retry_on))}"
    if meta.max_result_size is not None:
        yield f"a model sees {format_count(meta.max_result_size, 'character')} of a result"
    if not meta.concurrency_safe:
        yield "one call at a time"
    for limit in sorted(limits, key=lambda limit: (limit.agent or "", limit.tool or "")):
        if limit.tool == name:
            numbers = ((limit.per_minute, "a minute"), (limit.concurrent, "at once"), (limit.per_run, "in one run"))
            text = ", ".join(f"{number:,} {unit}" for number, unit in numbers if number is not None)
            yield f"calls: {text}{f', by {limit.agent}' if limit.agent else ''}"


def describe_source(tool: AnyTool) -> str:
    """
    Return where a tool comes from, the same on every machine: no absolute path, and no line that each edit moves.

    A file below the working directory is named by its path from there, another one by its module.
    """
    source, implementation = tool.metadata.source, tool.implementation
    parts = []
    if source is not None and (source.kind != "code" or source.distribution):
        trust = "" if source.trusted else ", not trusted"
        parts.append(f"{f'{source.distribution} {source.version}'.strip()} ({source.kind}{trust})".strip())
    file = _make_relative(source.file) if source is not None else ""
    if file:
        is_code = file.endswith(".py")
        parts.append(f"{file}, {implementation.qualname}" if is_code and implementation.qualname else file)
    elif source is None or source.kind in ("code", "plugin", "object"):
        module = implementation.site.import_name or implementation.module
        parts.append(f"{module}, {implementation.qualname}" if implementation.qualname else module)
    return "; ".join(parts)


def _make_relative(file: str) -> str:
    """Return the path from the working directory; empty where the file is not below it, or is installed there."""
    if not file or file.startswith("<"):
        return ""
    path, root = Path(os.path.realpath(file)), Path(os.path.realpath(os.getcwd()))
    if not path.is_relative_to(root):
        return ""
    relative = path.relative_to(root)
    return "" if "site-packages" in relative.parts else relative.as_posix()
