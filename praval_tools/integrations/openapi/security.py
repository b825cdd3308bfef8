"""Security schemes: which secrets an operation needs, and how they are sent; read from the environment at each call."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from attrs import define, field, frozen

from praval_tools.errors import ToolUsageError
from praval_tools.integrations.openapi.errors import DocumentProblem, OpenApiRequestError
from praval_tools.integrations.openapi.nodes import Node, References, UnresolvedError
from praval_tools.integrations.openapi.shapes import find_shape_problems
from praval_tools.integrations.openapi.styles import check_header, encode
from praval_tools.names import shorten_repr, suggest_names

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MIN_SECRET_LENGTH: Final = 6
"""Shorter values are part of ordinary words, and would be blacked out in every text."""

CredentialKind = Literal["header", "query", "cookie", "basic", "bearer"]


@frozen
class Credential:
    """
    A secret that is sent with a request; it holds the variable's name, and never the value.

    Args:
        scheme: The security scheme.
        kind: Where it goes: `basic` and `bearer` into the header `Authorization`.
        name: The header, parameter or cookie.
        variable: The environment variable: of `basic` it holds `user:password`.
    """

    scheme: str
    kind: CredentialKind
    name: str
    variable: str

    def read(self) -> str:
        """
        Return what is sent: the value of the variable, or what is made of it.

        Raises:
            OpenApiRequestError: The variable is not set.
        """
        value = os.environ.get(self.variable, "")
        if not value:
            text = f"The variable {self.variable!r}, for the security scheme {self.scheme!r}, is not set"
            raise OpenApiRequestError(f"{text}; nothing was sent.")
        if self.kind == "bearer":
            value = f"Bearer {value}"
        elif self.kind == "basic":
            value = f"Basic {base64.b64encode(value.encode()).decode()}"
        if self.kind in ("query", "cookie"):
            return encode(value)
        try:
            return check_header(self.name, value)
        except OpenApiRequestError:
            text = f"The variable {self.variable!r} holds something that cannot be the value of a header"
            raise OpenApiRequestError(f"{text}; nothing was sent.") from None

    def list_secrets(self) -> set[str]:
        """Return the texts that must reach no record."""
        given, parts = os.environ.get(self.variable, ""), set[str]()
        for value in {given, given.strip()}:  # a service may leave the end of the line out
            parts |= {value, encode(value)}
            if self.kind == "basic":
                parts |= {value.partition(":")[2], base64.b64encode(value.encode(errors="replace")).decode()}
        return {part for part in parts if len(part) >= _MIN_SECRET_LENGTH}


@frozen
class Access:
    """
    What an operation needs to be called.

    Args:
        credentials: What is sent.
        missing: What is needed besides, and not configured; empty where nothing is.
    """

    credentials: tuple[Credential, ...] = ()
    missing: str = ""

    def list_secrets(self) -> tuple[str, ...]:
        """Return the texts that must reach no record, the longest first."""
        secrets = {text for credential in self.credentials for text in credential.list_secrets()}
        return tuple(sorted(secrets, key=len, reverse=True))


@define(eq=False)
class SecurityReader:
    """
    Reads what operations need.

    Args:
        references: Follows references.
        root: The document.
        auth_env: The variable of each scheme, or the one of the only scheme.
        problems: Receives what is wrong with the document.
    """

    references: References
    root: Node
    auth_env: str | Mapping[str, str] | None
    problems: list[DocumentProblem]
    _schemes: dict[str, Node] = field(factory=dict)
    _variables: dict[str, str] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        for name, node in self.root.get_child("components").get_child("securitySchemes").iter_children():
            try:
                scheme = self.references.resolve(node)
            except UnresolvedError as error:
                self.problems.append(error.problem)
                continue
            if shape_problems := list(find_shape_problems(scheme, "security scheme")):
                self.problems += shape_problems
            else:
                self._schemes[name] = scheme
        self._variables = assign_variables(self.auth_env, list(self._schemes))
        for name in self._variables.keys() & self._schemes.keys():
            if _make_credential(name, self._schemes[name], "X") is None:
                text = "basic and bearer authentication, API keys and OAuth tokens are"
                raise ToolUsageError(f"The security scheme {name!r} cannot be used by auth_env=; {text}.")

    def read(self, operation: Node) -> Access:
        """Return what an operation needs: the first of its alternatives for which there are variables."""
        owner = operation if "security" in operation.members else self.root
        alternatives = [self._read_requirement(node) for _, node in owner.get_child("security").iter_children()]
        if not self._schemes and "security" not in operation.members and isinstance(self.auth_env, str):
            return Access((Credential("bearer", "bearer", "Authorization", self.auth_env),))
        for names in alternatives:
            if names and all(name in self._variables for name in names):
                credentials = [_make_credential(name, self._schemes[name], self._variables[name]) for name in names]
                return Access(tuple(credential for credential in credentials if credential is not None))
        if not alternatives or [] in alternatives:
            return Access()
        return Access(missing=" or ".join(" and ".join(map(repr, names)) for names in alternatives))

    def _read_requirement(self, node: Node) -> list[str]:
        if shape_problems := list(find_shape_problems(node, "security requirement")):
            self.problems += shape_problems
            return []
        for name in node.members:
            if name not in self.root.get_child("components").get_child("securitySchemes").members:
                text = f"there is no security scheme {shorten_repr(name)} among #/components/securitySchemes"
                self.problems.append(DocumentProblem(node.place, text))
        return list(node.members)


def assign_variables(auth_env: str | Mapping[str, str] | None, schemes: Iterable[str]) -> dict[str, str]:
    """
    Return the variable of each scheme that has one.

    Raises:
        ToolUsageError: There is no such scheme, or several could be meant, or a value cannot be the name of a variable.
    """
    known = sorted(schemes)
    if auth_env is None:
        return {}
    if isinstance(auth_env, str):
        if len(known) > 1:
            text = f"The document has the security schemes {', '.join(map(repr, known))}"
            raise ToolUsageError(f"{text}; say which: auth_env={{{known[0]!r}: 'VARIABLE'}}.")
        variables = dict.fromkeys(known or ["bearer"], auth_env)
    elif isinstance(auth_env, Mapping):
        variables = dict(auth_env)
        for name in variables.keys() - set(known):
            hint = suggest_names(name, known) or f" It has {', '.join(map(repr, known)) or 'none'}."
            raise ToolUsageError(f"auth_env= names {shorten_repr(name)}, and the document has no such scheme.{hint}")
    else:
        raise ToolUsageError("auth_env= is the name of a variable, or a mapping of security schemes to such names.")
    if not all(isinstance(variable, str) and _VARIABLE.fullmatch(variable) for variable in variables.values()):
        raise ToolUsageError("auth_env= takes names of environment variables, not their values: letters, digits and _.")
    return variables


def _make_credential(name: str, scheme: Node, variable: str) -> Credential | None:
    """Return how a scheme is sent; None for one that cannot be."""
    kind, members = scheme.members["type"], scheme.members
    if kind == "apiKey":
        place = str(members["in"])
        places: dict[str, CredentialKind] = {"header": "header", "query": "query", "cookie": "cookie"}
        return Credential(name, places[place], str(members["name"]), variable)
    if kind in ("oauth2", "openIdConnect"):
        return Credential(name, "bearer", "Authorization", variable)
    if kind == "http":
        scheme_name = str(members["scheme"]).lower()
        if scheme_name == "bearer":
            return Credential(name, "bearer", "Authorization", variable)
        if scheme_name == "basic":
            return Credential(name, "basic", "Authorization", variable)
    return None
