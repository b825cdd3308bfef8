"""Fills environment variables in where a configuration may name them, and finds those that are not set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

import attrs
from attrs import define, field

from praval_tools.config.system import OpenApiConfig, ServerConfig
from praval_tools.config_loading.declarations import Declarations, Located
from praval_tools.errors import ConfigProblem

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MALFORMED: Final = re.compile(r"\$\{")


@define
class Expansion:
    """
    What came of filling variables in.

    Args:
        variables: The environment.
        problems: Variables that are not set, and texts that name none.
        secrets: The values that were filled in, which no message repeats.
    """

    variables: Mapping[str, str]
    problems: list[ConfigProblem] = field(factory=list)
    secrets: set[str] = field(factory=set)

    def fill_in(self, entry: Located[object], text: str, *key: str | int) -> str:
        """Return *text*, which stands at *key* of an entry, with each `${NAME}` replaced by that variable."""

        def get_value(match: re.Match[str]) -> str:
            if (value := self.variables.get(match[1])) is None:
                self.problems.append(entry.build_problem(f"the environment variable {match[1]} is not set", *key))
                return match[0]
            self.secrets.add(value)
            return value

        if _MALFORMED.search(_VARIABLE.sub("", text)):
            self.problems.append(entry.build_problem("expected ${NAME}, the name of an environment variable", *key))
        return _VARIABLE.sub(get_value, text)

    def require(self, entry: Located[object], names: Iterable[tuple[str, tuple[str | int, ...]]]) -> None:
        """Report each of the *names*, given with its key, that is not the name of a variable that is set."""
        for name, key in names:
            if not _NAME.fullmatch(name):
                text = "expected the name of an environment variable, not its value: letters, digits and _"
                self.problems.append(entry.build_problem(text, *key))
            elif not self.variables.get(name):
                self.problems.append(entry.build_problem(f"the environment variable {name} is not set", *key))
            else:
                self.secrets.add(self.variables[name])


def fill_variables(text: str, variables: Mapping[str, str]) -> str:
    """Return *text* with each `${NAME}` replaced by that variable, where it is set."""
    return _VARIABLE.sub(lambda match: variables.get(match[1], match[0]), text)


def expand_declarations(declarations: Declarations, variables: Mapping[str, str]) -> Expansion:
    """Fill variables in where they may stand: addresses of servers, documents, broker; paths of journal, statistics."""
    expansion = Expansion(variables)
    for name, server in declarations.servers.items():
        declarations.servers[name] = server.with_value(_expand_server(server, expansion))
    declarations.services = [entry.with_value(_expand_service(entry, expansion)) for entry in declarations.services]
    if (journal := declarations.journal) is not None:
        path = expansion.fill_in(journal, journal.value.path, "path")
        declarations.journal = journal.with_value(attrs.evolve(journal.value, path=path))
    if (stats := declarations.stats) is not None and stats.value.storage_path is not None:
        path = expansion.fill_in(stats, stats.value.storage_path, "storage_path")
        declarations.stats = stats.with_value(attrs.evolve(stats.value, storage_path=path))
    if (execution := declarations.execution) is not None and execution.value.broker is not None:
        broker = expansion.fill_in(execution, execution.value.broker, "broker")
        declarations.execution = execution.with_value(attrs.evolve(execution.value, broker=broker))
    return expansion


def _expand_server(server: Located[ServerConfig], expansion: Expansion) -> ServerConfig:
    entry = server.value
    if entry.auth is not None:
        expansion.require(server, [(entry.auth.token_env_var, ("auth", "token_env_var"))])
    expansion.require(server, [(name, ("headers_env", header)) for header, name in entry.headers_env.items()])
    expansion.require(server, [(name, ("env", index)) for index, name in enumerate(entry.env)])
    url = None if entry.url is None else expansion.fill_in(server, entry.url, "url")
    command = entry.command
    if isinstance(command, str):
        command = expansion.fill_in(server, command, "command")
    elif command is not None:
        command = tuple(expansion.fill_in(server, word, "command", index) for index, word in enumerate(command))
    return attrs.evolve(entry, url=url, command=command)


def _expand_service(service: Located[OpenApiConfig], expansion: Expansion) -> OpenApiConfig:
    entry, auth_env = service.value, service.value.auth_env
    if isinstance(auth_env, str):
        expansion.require(service, [(auth_env, ("auth_env",))])
    elif auth_env is not None:
        expansion.require(service, [(name, ("auth_env", scheme)) for scheme, name in auth_env.items()])
    base_url = None if entry.base_url is None else expansion.fill_in(service, entry.base_url, "base_url")
    return attrs.evolve(entry, document=expansion.fill_in(service, entry.document, "document"), base_url=base_url)
