"""OpenAPI documents of a configuration: checked, read before anything changes, and put into force with all else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import attrs
from attrs import frozen

from praval_tools.config.system import OpenApiConfig
from praval_tools.config_loading.declarations import Declarations, Located, ProblemCollector
from praval_tools.errors import ConfigProblem, InvalidNameError, MissingExtraError, ToolError
from praval_tools.names import check_agent_name, check_tool_name
from praval_tools.registry.openapi_services import PreparedService, prepare_service
from praval_tools.registry.registry import ToolRegistry
from praval_tools.registry.source_options import OpenApiOptions

_MAX_PROBLEMS = 50
_NUMBERS = ("timeout", "fetch_timeout", "max_document_bytes", "max_answer_bytes")


@frozen
class ServiceInForce:
    """
    A document and its tools.

    Args:
        entry: What is said of it.
        source: Its tools; None where it is not read, as at a check, which sends nothing.
    """

    entry: OpenApiConfig
    source: PreparedService | None

    def may_have(self, tool: str) -> bool:
        """Tell whether a tool of this name may come once the document is read."""
        return self.source is None and tool.startswith(f"{self.entry.namespace}-")


def check_services(declarations: Declarations) -> Iterator[ConfigProblem]:
    """Yield what is wrong with the entries, as far as that can be seen without their documents."""
    holders: dict[str, Located[object]] = {
        server.value.namespace or name: server for name, server in declarations.servers.items()
    }
    for service in declarations.services:
        entry = service.value
        if (other := holders.setdefault(entry.namespace, service)) is not service:
            place = f"{other.document.file}, line {other.line}"
            yield service.build_problem(f"namespaces are unique; that of {place} is the same", "namespace")
        if not entry.document:
            yield service.build_problem("expected a path or a URL", "document")
        for key, check in (("owned_by", check_agent_name), ("namespace", check_tool_name)):
            try:
                if (name := getattr(entry, key)) is not None:
                    check(name)
            except InvalidNameError as error:
                yield service.build_problem(str(error), key)
        for key in _NUMBERS:
            if (number := getattr(entry, key)) is not None and not 0 < number < float("inf"):
                yield service.build_problem("expected a positive number", key)


def is_web_address(text: str) -> bool:
    """Tell whether a document is not a file."""
    return text.lower().startswith(("http://", "https://"))


def read_services(
    registry: ToolRegistry, declarations: Declarations, previous: dict[str, ServiceInForce],
    problems: ProblemCollector, *, connect: bool,
) -> dict[str, ServiceInForce]:  # fmt: skip
    """
    Return the services, those of before where nothing is said differently; nothing of them is in force yet.

    Args:
        registry: The registry.
        declarations: What is declared.
        previous: The services of before, by their namespaces.
        problems: Receives what is wrong with documents, place by place.
        connect: Fetch the documents that have URLs.
    """
    services = dict[str, ServiceInForce]()
    for service in declarations.services:
        entry = service.value
        old = previous.get(entry.namespace)
        if old is not None and old.entry == entry and old.source is not None:
            services[entry.namespace] = old
        elif problems.is_known_of(service) or (is_web_address(entry.document) and not connect):
            services[entry.namespace] = ServiceInForce(entry, None)
        else:
            services[entry.namespace] = ServiceInForce(entry, _prepare(registry, service, problems))
    return services


def _prepare(
    registry: ToolRegistry, service: Located[OpenApiConfig], problems: ProblemCollector
) -> PreparedService | None:
    entry, folder = service.value, Path(service.document.file).parent
    spec = entry.document if is_web_address(entry.document) else folder / entry.document
    references = [text if is_web_address(text) else str((folder / text).absolute()) for text in entry.allow_references]
    given = {name: value for name, value in attrs.asdict(entry, recurse=False).items() if value not in (None, (), {})}
    del given["document"]
    options = cast("OpenApiOptions", {**given, "allow_references": references})
    try:
        return prepare_service(registry, spec, options, service.build_source())
    except (ToolError, MissingExtraError, ModuleNotFoundError) as error:
        hidden = entry.document if _has_variables(service) else ""
        reasons = getattr(error, "problems", None) or [error]
        for problem in reasons[:_MAX_PROBLEMS]:
            text = str(problem).replace(hidden, "…") if hidden else str(problem)
            problems.report(service, text, "document")
    return None


def _has_variables(service: Located[OpenApiConfig]) -> bool:
    """Tell whether the address of a document is filled in from the environment; what comes of that may be secret."""
    section, index = service.key[0], service.key[-1]
    entries: object = service.document.data.get(str(section))
    table = entries[index] if isinstance(entries, list) and isinstance(index, int) else {}
    return "${" in str(table.get("document", "")) + str(table.get("base_url", ""))
