"""`Tool`: a named callable with metadata and schemas, immutable."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any, Generic, Literal, ParamSpec, Self, TypeAlias, TypeVar

from attrs import frozen

from praval_tools.errors import (
    InvalidNameError,
    ToolDefinitionError,
    ToolDefinitionWarning,
    ToolUsageError,
    get_user_stacklevel,
)
from praval_tools.lazy_import import load
from praval_tools.misuse import explain_misuse_and_take_plain_arguments
from praval_tools.names import check_name_part, check_tool_name
from praval_tools.schema.docstrings import find_docstring
from praval_tools.schema.schema_tree import JsonSchema
from praval_tools.schema.signature import Signature
from praval_tools.schema.supplied_schema import check_supplied_schema
from praval_tools.tools.context import NO_DEPS, ToolContext, choose_deps
from praval_tools.tools.implementation import ToolDefinition, ToolImplementation, inspect_function, read_tool_signature
from praval_tools.tools.metadata import ToolMetadata, describe_unknown_fields
from praval_tools.tools.return_values import complete_awaited, complete_value
from praval_tools.tools.source import DeclarationSite, find_declaration_site, find_function_name

P = ParamSpec("P")
R = TypeVar("R")


@explain_misuse_and_take_plain_arguments
@frozen(eq=False, slots=False, init=False)
class Tool(Generic[P, R]):
    """
    A named callable with metadata and schemas; frozen, compared by identity.

    Calling it is plain Python, with no access check and no record: the host program is the operator.
    Agents call through their toolset.

    Args:
        name: Its name in a registry.
        description: What a model reads.
        parameters: JSON Schema of the arguments, or `{"q": "string"}` for required properties;
            None: derived from the function.
        callable: The function; `func` and `fn` are other names for it.
        is_async: Checked against the function where given.
        namespace: Prefix of the name.
        method_name: The name after the namespace.
        doc: The docstring; the function's by default.
        signature: The function's own, from `inspect.signature`; another one is a problem.
        more: Every other field of `ToolMetadata`.

    Raises:
        ToolDefinitionError: With every problem of the definition.
    """

    name: str
    metadata: ToolMetadata
    namespace: str | None
    method_name: str | None
    implementation: ToolImplementation

    def __new__(cls, *args: object, **keywords: object) -> Self:
        function = next((keywords[name] for name in ("callable", "func", "fn") if name in keywords), None)
        if cls is Tool and _is_async(args[3] if len(args) > 3 else function):
            return object.__new__(AsyncTool)  # type: ignore[return-value]
        return object.__new__(cls)

    def __init__(
        self,
        name: str,
        description: str | None = None,
        parameters: Mapping[str, object] | None = None,
        callable: Callable[P, R] | None = None,
        *,
        func: Callable[P, R] | None = None,
        fn: Callable[P, R] | None = None,
        is_async: bool | None = None,
        namespace: str | None = None,
        method_name: str | None = None,
        metadata: ToolMetadata | None = None,
        doc: str | None = None,
        signature: inspect.Signature | None = None,
        **more: Any,
    ) -> None:
        functions = [each for each in (callable, func, fn) if each is not None]
        if any(other is not functions[0] for other in functions):
            raise ToolUsageError("callable=, func= and fn= are names of one thing; pass one of them.")
        namespace, method_name = check_name_part(namespace), check_name_part(method_name)
        if namespace and not name.startswith((f"{namespace}-", f"{namespace}.")):
            name = f"{namespace}-{method_name or name}"
        if namespace and method_name is None:
            method_name = name[len(namespace) + 1 :]
        _initialize_tool(
            self, functions[0] if functions else None, name, description, metadata, more, namespace, method_name,
            strict=parameters is None, schema=parameters, is_async=is_async, doc=doc, own_signature=signature,
        )  # fmt: skip

    @classmethod
    def from_function(
        cls,
        function: Callable[P, R] | None = None,
        name: str | None = None,
        description: str | None = None,
        namespace: str | None = None,
        method_name: str | None = None,
        metadata: ToolMetadata | None = None,
        strict: bool = True,
        *,
        func: Callable[P, R] | None = None,
        **more: Any,
    ) -> Tool[P, R]:
        """
        Make a tool of *function*, registered nowhere.

        Args:
            function: Any callable with type hints; a named lambda's parameters are unconstrained.
            name: Its name; `__name__` by default.
            description: The cleaned docstring by default.
            namespace: Prefix of the name.
            method_name: The name after the namespace.
            metadata: Every other field.
            strict: False: a missing hint means unconstrained.
            func: Another name of *function*.
            more: Fields of `ToolMetadata`.

        Raises:
            ToolDefinitionError: With every problem of the function.
            InvalidNameError: The namespace or the name after it is not a text.
        """
        function = function if function is not None else func
        namespace, method_name = check_name_part(namespace), check_name_part(method_name)
        base = method_name if namespace and method_name is not None else name
        base = find_function_name(function) if base is None else base
        if base != "<lambda>":
            method_name = method_name or base
        kind: Any = AsyncTool if _is_async(function) else Tool
        tool: Tool[P, R] = object.__new__(kind)
        full_name = f"{namespace}-{base}" if namespace else base
        _initialize_tool(tool, function, full_name, description, metadata, more, namespace, method_name, strict=strict)
        return tool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.implementation.function(*args, **kwargs)  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name} owned_by={self.metadata.owned_by!r}>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    # ── what it is ───────────────────────────────────────────────────────────────────────────────

    @property
    def description(self) -> str:
        """What a model reads."""
        return self.metadata.description

    @property
    def function(self) -> Callable[P, R]:
        """The function itself."""
        return self.implementation.function

    callable = function
    """Another name of `function`."""
    func = function
    """Another name of `function`."""
    fn = function
    """Another name of `function`."""

    @property
    def parameters(self) -> JsonSchema:
        """JSON Schema of the arguments, a fresh copy."""
        return copy.deepcopy(self.implementation.compiled.parameters_schema)

    json_schema = parameters
    """Another name of `parameters`."""

    @property
    def result_schema(self) -> JsonSchema | None:
        """JSON Schema of the result, from the return hint; None where there is none."""
        return copy.deepcopy(self.implementation.compiled.result_schema)

    @property
    def definition(self) -> ToolDefinition:
        """What a model reads: name, description and schema."""
        return ToolDefinition(self.name, self.description, self.parameters)

    _tool_definition = definition
    _is_tool = True

    def to_dict(self) -> dict[str, Any]:
        """Return name, description and schema as a dict."""
        return self.definition.to_dict()

    @property
    def doc(self) -> str:
        """The function's docstring, as written."""
        return self.implementation.docstring or ""

    @property
    def signature(self) -> inspect.Signature:
        """The function's `inspect.Signature`."""
        return inspect_function(self.implementation)

    @property
    def is_async(self) -> bool:
        """Whether the function is to be awaited."""
        return self.implementation.signature.is_async

    @property
    def qualified_name(self) -> str:
        """`{namespace}-{method_name}` where both are known, else the name."""
        if self.namespace and self.method_name:
            return f"{self.namespace}-{self.method_name}"
        return self.name

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the present name and description and the schemas; owner, flags and the function don't count."""
        return self.implementation.compute_fingerprint(self.name, self.description)

    def get_schema(
        self, api_format: str = "openai-chat", *, strict: bool = False, think_augment: bool = False
    ) -> dict[str, Any]:
        """
        Return the tool in a provider's format; an unknown one is a `ValueError` with the list.

        Args:
            api_format: `openai-chat`, `openai-responses`, `anthropic`, `gemini`, `mcp`.
            strict: For the provider's strict mode; a tool that cannot be strict is given as it is without.
            think_augment: Ask the model for the reason of each call.
        """
        export = load("praval_tools.formats").export  # formats are made of tools, not tools of formats
        made: dict[str, Any] = export(
            api_format, self.name, self.description, self.parameters, self.metadata, result=self.result_schema,
            strict=strict, think_augment=think_augment,
        )  # fmt: skip
        return made

    def describe(self, api_format: str = "openai-chat") -> dict[str, Any]:
        """Return the tool in a provider's format (deprecated: use `get_schema`)."""
        warnings.warn("Tool.describe is deprecated, use get_schema", DeprecationWarning, stacklevel=2)
        return self.get_schema(api_format)

    def get_json_schema(self, api_format: str = "openai-chat") -> dict[str, Any]:
        """Return the tool in a provider's format (deprecated: use `get_schema`)."""
        warnings.warn("Tool.get_json_schema is deprecated, use get_schema", DeprecationWarning, stacklevel=2)
        return self.get_schema(api_format)

    # ── copies ───────────────────────────────────────────────────────────────────────────────────

    def with_metadata(self, **changes: Any) -> Tool[P, R]:
        """
        Return a copy with some fields of the metadata changed; the function stays, and so does the name.

        Raises:
            ToolUsageError: `tool_name` is another name.
        """
        if changes.get("tool_name", self.name) != self.name:
            fix = "make another one: Tool.from_function(tool.function, name=…)"
            raise ToolUsageError(f"Metadata does not rename the tool {self.name!r}; {fix}.")
        return _copy_with(self, metadata=self.metadata.replace(**changes))

    def with_namespace(self, namespace: str | None, *, force: bool = False, sep: Literal["-", "."] = "-") -> Tool[P, R]:
        """
        Return a copy under *namespace*; a tool that has one already is returned as it is, unless *force*.

        An existing `.` or `-` prefix counts as a namespace.
        """
        base = self.method_name if self.namespace else None
        if base is None or not self.name.endswith(base):
            cut_at = max(self.name.find("-"), self.name.find("."))
            base = self.name[cut_at + 1 :] if cut_at > 0 else self.name
        if namespace is None or (base != self.name and not force):
            return self
        check_tool_name(namespace)
        name = check_tool_name(f"{namespace}{sep}{base}")
        metadata = self.metadata.replace(tool_name=name)
        return _copy_with(self, name=name, metadata=metadata, namespace=namespace, method_name=base)

    update_namespace = with_namespace
    """Another name of `with_namespace`."""

    # ── the operator's calls: checked arguments, no access check, no record ──────────────────────

    def run_raw(self, parameters: Mapping[str, object], *, deps: object = None) -> Any:
        """
        Check the arguments and run the tool, raising what it raises; an async tool runs on a loop of its own.

        *deps* are for a tool that declares `ToolContext[Deps]`.

        Raises:
            ToolArgumentsError: The arguments do not fit.
            ToolUsageError: An async tool, and a loop runs in this thread; or a tool without the deps that it needs.
        """
        values = self._bind_keywords(parameters, deps)
        if not self.is_async:
            return complete_value(self.implementation.function(**values), self.name)
        import asyncio

        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(complete_awaited(self.implementation.function(**values), self.name))
        raise ToolUsageError(
            f"Tool {self.name!r} is async and an event loop runs in this thread: await arun_raw instead.",
            "sync-call-in-event-loop",
        )

    async def arun_raw(self, parameters: Mapping[str, object], *, deps: object = None) -> Any:
        """Check the arguments and run the tool on this loop, raising what it raises."""
        outcome = self.implementation.function(**self._bind_keywords(parameters, deps))
        return await complete_awaited(outcome, self.name) if self.is_async else complete_value(outcome, self.name)

    def run(self, parameters: Mapping[str, object]) -> Any:
        """Like `run_raw`, but an exception becomes a text, with a `DeprecationWarning`."""
        try:
            return self.run_raw(parameters)
        except Exception as error:  # the promise of this method: a text instead of the exception
            warnings.warn("Tool.run swallows errors and is deprecated, use run_raw", DeprecationWarning, stacklevel=2)
            return f"Error executing {self.name}: {error}"

    async def arun(self, parameters: Mapping[str, object]) -> Any:
        """Like `arun_raw`, but an exception becomes a text, with a `DeprecationWarning`."""
        try:
            return await self.arun_raw(parameters)
        except Exception as error:  # the promise of this method: a text instead of the exception
            warnings.warn("Tool.arun swallows errors and is deprecated, use arun_raw", DeprecationWarning, stacklevel=2)
            return f"Error executing {self.name}: {error}"

    def _bind_keywords(self, parameters: Mapping[str, object], deps: object) -> dict[str, Any]:
        values = self.implementation.bind_keywords(parameters, strict=bool(self.metadata.strict_arguments))
        for name in self.implementation.context_parameters:
            given = NO_DEPS if deps is None else deps
            values[name] = ToolContext(deps=choose_deps(self.name, self.implementation.deps_hint, given))
        return values


class AsyncTool(Tool[P, Coroutine[Any, Any, R]], Generic[P, R]):
    """A tool whose function is `async def`; calling it gives an awaitable."""

    @property
    def _is_coroutine(self) -> object:  # the mark that `asyncio.iscoroutinefunction` knows up to Python 3.11
        import asyncio.coroutines

        return getattr(asyncio.coroutines, "_is_coroutine", None)

    # and that of `inspect.iscoroutinefunction` from 3.12 on
    _is_coroutine_mark = property(lambda self: getattr(inspect, "_is_coroutine_mark", None))

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return await self.implementation.function(*args, **kwargs)  # type: ignore[no-any-return]


AnyTool: TypeAlias = Tool[..., Any]
"""A tool of whatever signature."""


def _is_async(function: object) -> bool:
    flags: int | None = getattr(getattr(function, "__code__", None), "co_flags", None)
    if flags is not None:
        return bool(flags & inspect.CO_COROUTINE)
    while (inner := getattr(function, "func", None)) is not None:
        function = inner
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _initialize_tool(
    tool: AnyTool, function: Any, name: str, description: str | None, metadata: ToolMetadata | None,
    more: dict[str, Any], namespace: str | None, method_name: str | None, *, strict: bool,
    schema: Mapping[str, object] | None = None, is_async: bool | None = None, doc: str | None = None,
    own_signature: inspect.Signature | None = None,
) -> None:  # fmt: skip
    """Fill *tool*, or raise one error with every problem of its function, schema and metadata."""
    site = find_declaration_site(function)
    strict = strict and getattr(function, "__name__", "") != "<lambda>"
    signature = read_tool_signature(name, function, strict=strict)
    problems = describe_unknown_fields(more)
    if name in ("", "<lambda>"):
        problems.append(f"{'a lambda' if name else 'it'} has no name; pass name=…")
        name = name.strip("<>")
    if schema is None or not callable(function):
        problems.extend(signature.problems)
    if callable(function):
        problems.extend(_check_statements(function, signature, is_async, own_signature))
    supplied_schema, schema_problems = (None, ()) if schema is None else check_supplied_schema(schema, signature)
    problems.extend(schema_problems)
    if schema is not None and isinstance(function, type):
        problems.append("it is a class; make a tool of a function that builds one")
    doc = find_docstring(function) if doc is None else doc
    meta = _build_metadata(name, description, doc, metadata, more, signature, site, problems)
    if meta is None or problems:
        raise ToolDefinitionError(name, problems, str(site.source) if site.source.file else "")
    if not meta.described:
        text = f"Tool {name!r} has no docstring and no description; models will not know what it does."
        warnings.warn(text, ToolDefinitionWarning, stacklevel=get_user_stacklevel())
    tool.__dict__.update(
        name=name,
        metadata=meta,
        namespace=namespace,
        method_name=method_name,
        implementation=ToolImplementation(function, name, meta, signature, site, supplied_schema, doc, strict),
        __wrapped__=function,
        __name__=getattr(function, "__name__", name),
        __qualname__=site.qualname,
        __module__=site.module,
        __doc__=doc,
    )


def _check_statements(
    function: Callable[..., object], signature: Signature, is_async: bool | None, own: inspect.Signature | None
) -> Iterator[str]:
    """Yield what was said of a function and is not so."""
    if is_async is not None and is_async != signature.is_async:
        yield f"is_async={is_async} but the function is {'' if signature.is_async else 'not '}async"
    if own is not None and own != inspect.signature(function):
        yield "signature= is not that of the function; leave it out"


def _build_metadata(
    name: str, description: str | None, doc: str | None, metadata: ToolMetadata | None, more: dict[str, Any],
    signature: Signature, site: DeclarationSite, problems: list[str],
) -> ToolMetadata | None:  # fmt: skip
    """Return the metadata; None where it has problems, which are added to *problems*."""
    if problems:
        more = {key: value for key, value in more.items() if not describe_unknown_fields((key,))}
    fields: dict[str, Any] = {"source": site.source, **more, "signature": signature, "doc": doc}
    try:
        if metadata is None:
            metadata = ToolMetadata(name, description=description, **fields)
        else:
            text = description if description is not None else metadata.description or None
            fields["source"] = more.get("source", metadata.source or site.source)
            metadata = metadata.replace(tool_name=name, description=text, **fields)
    except ToolDefinitionError as error:
        problems.extend(error.problems)
    except InvalidNameError as error:
        problems.append(str(error))
    else:
        if metadata.shared and metadata.private:
            problems.append("shared and private contradict each other; drop one of them")
        if metadata.engine in ("process", "celery") and (problem := site.address_problem) is not None:
            problems.append(f"engine={metadata.engine!r} cannot run it: {problem}")
        return metadata
    return None


def with_checked_metadata(tool: Tool[P, R], **fields: object) -> Tool[P, R]:
    """Return a copy of *tool* with some fields of its metadata changed to values that were checked already."""
    return _copy_with(tool, metadata=tool.metadata.with_trusted_fields(fields))


def _copy_with(tool: Tool[P, R], **changes: object) -> Tool[P, R]:
    copied = object.__new__(type(tool))
    copied.__dict__.update(tool.__dict__)
    copied.__dict__.update(changes)
    return copied
