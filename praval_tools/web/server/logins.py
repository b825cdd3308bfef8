"""Who may log in: people with a token of the journal, and whoever started the server, once, by a token of its own."""

from __future__ import annotations

import hashlib
import secrets
from datetime import datetime, timedelta
from typing import Final

from attrs import define, field, frozen

from praval_tools.clock import Clock, SystemClock
from praval_tools.journal.tokens import OPERATOR_ROLE, VIEWER_ROLE, Tokens

ONE_TIME_SPAN: Final = timedelta(hours=1)
"""How long after the start a one-time token counts."""
_ROLES: Final = (OPERATOR_ROLE, VIEWER_ROLE)


@frozen(kw_only=True)
class Login:
    """
    Who logged in.

    Args:
        name: The person.
        role: `operator` or `viewer`.
        token_id: The token; None: it was one that counts once.
    """

    name: str
    role: str
    token_id: str | None = None


@define(kw_only=True)
class Logins:
    """
    Finds who a token stands for.

    Args:
        tokens: Those of the journal.
        clock: Tells when a one-time token expires.
    """

    _tokens: Tokens = field(alias="tokens")
    _clock: Clock = field(alias="clock", factory=SystemClock)
    _one_time_logins: dict[bytes, tuple[Login, datetime]] = field(factory=dict, init=False)

    def make_one_time_token(self, name: str) -> str:
        """Return a token by which *name* logs in as an operator, once; it is kept in this process alone."""
        token = f"once_{secrets.token_urlsafe(24)}"
        login = Login(name=name, role=OPERATOR_ROLE)
        self._one_time_logins[_make_digest(token)] = login, self._clock.now() + ONE_TIME_SPAN
        return token

    def find(self, token: str) -> Login | None:
        """Return who a token stands for; None where it counts for nobody. One that counts once does so no more."""
        login, expires = self._one_time_logins.pop(_make_digest(token), (None, None))
        if expires is not None:
            return login if self._clock.now() < expires else None
        found = self._tokens.find(token, roles=_ROLES)
        return None if found is None else Login(name=found.agent, role=found.role, token_id=found.id)

    def is_live(self, login: Login) -> bool:
        """Tell whether the token by which somebody logged in still counts."""
        return login.token_id is None or self._tokens.is_live(login.token_id)


def _make_digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
