"""Makes, finds and revokes bearer tokens of agents and of people: shown once, and stored as salted digests."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from attrs import field, frozen

from praval_tools.clock import Clock, SystemClock
from praval_tools.errors import ToolUsageError
from praval_tools.journal.journal import Journal
from praval_tools.journal.storage.protocol import TokenRow, TokenStorage
from praval_tools.journal.token_file import TokenFile
from praval_tools.names import check_agent_name, get_agent_name, shorten_repr
from praval_tools.tools.frames import refuse_others_than_operator
from praval_tools.values.plain_times import to_plain_time

DEFAULT_FILE: Final = "praval_tools.tokens"
"""The file in which tokens are kept where no journal keeps them, in the working directory."""

AGENT_ROLE: Final = "agent"
OPERATOR_ROLE: Final = "operator"
VIEWER_ROLE: Final = "viewer"
ROLES: Final = (AGENT_ROLE, OPERATOR_ROLE, VIEWER_ROLE)
"""What a token is for: an agent's client, or the operator's page, which viewers can only look at."""

_PREFIX: Final = "pvt"
_SALT_BYTES, _ID_BYTES, _SECRET_BYTES = 16, 6, 32
_UNKNOWN: Final = (bytes(_SALT_BYTES), bytes(32))
"""Salt and digest with which the token of an unknown id is compared: no answer comes sooner than another."""


@frozen(kw_only=True)
class AgentToken:
    """
    What is known of a token; the token itself is not.

    Args:
        id: By which it is revoked.
        agent: The agent for which it stands, or the person.
        created: When it was made.
        expires: From when on it counts no more; None: it does not expire.
        has_expired: Whether it counts no more.
        role: `agent`; of a person who uses the operator's page, `operator` or `viewer`.
    """

    id: str
    agent: str
    created: datetime
    expires: datetime | None = None
    has_expired: bool = False
    role: str = AGENT_ROLE


@frozen(kw_only=True)
class Tokens:
    """
    The tokens that stand for agents, such as those of the clients of an MCP server, and those of people.

    All processes that use the same journal or file see the same tokens, each change from the next look on.

    Args:
        storage: Where they are kept.
        clock: Tells when they expire.
    """

    _storage: TokenStorage = field(alias="storage")
    _clock: Clock = field(alias="clock", factory=SystemClock)

    @property
    def is_file(self) -> bool:
        """Whether they are in a file of their own, and not in a journal."""
        return isinstance(self._storage, TokenFile)

    def add(self, agent: object, *, expires: timedelta | datetime | None = None, role: str = AGENT_ROLE) -> str:
        """
        Return a new token for an agent or a person; this is the only time that it can be read.

        Args:
            agent: The agent or its name; it need not be declared, and acts for nobody else. Or a person's name.
            expires: When it expires, or after how long; None: never.
            role: `agent`; for a person who uses the operator's page, `operator` or `viewer`.

        Raises:
            NotOwnerError: Somebody else than the operator runs.
            ToolUsageError: It would have expired already, the time has no time zone, or there is no such role.
        """
        refuse_others_than_operator("give out a token")
        if role not in ROLES:
            raise ToolUsageError(f"A token is of one of the roles {', '.join(ROLES)}, not {role!r}.", "token-role")
        name, now = check_agent_name(get_agent_name(agent)), self._clock.now()
        expires = to_plain_time(expires)
        try:
            end = now + expires if isinstance(expires, timedelta) else expires
            if end is not None and end.tzinfo is not None and end > now:
                end = end.astimezone(UTC)
        except OverflowError:
            end = None  # no calendar goes that far
        if end is not None and (end.tzinfo is None or end <= now):
            problem = "has no time zone" if end.tzinfo is None else "is over"
            raise ToolUsageError(f"A token cannot expire at {end}: that time {problem}.", "token-expiry")
        token_id, secret = secrets.token_hex(_ID_BYTES), secrets.token_urlsafe(_SECRET_BYTES)
        salt = os.urandom(_SALT_BYTES)
        digest = _make_digest(salt, secret, role)
        row = TokenRow(id=token_id, agent=name, salt=salt, digest=digest, created=now, expires=end, role=role)
        self._storage.add_token(row)
        return f"{_PREFIX}_{token_id}_{secret}"

    def list(self) -> list[AgentToken]:
        """Return the tokens, the oldest first, expired ones among them."""
        return [self._describe_token(row) for row in self._storage.list_tokens()]

    def revoke(self, token_id: str) -> None:
        """
        End a token, given by its id; a server refuses it from the next message on.

        Raises:
            NotOwnerError: Somebody else than the operator runs.
            ToolUsageError: There is no such token.
        """
        refuse_others_than_operator("revoke a token")
        if not self._storage.delete_token(token_id):
            raise ToolUsageError(f"There is no token {shorten_repr(token_id)}; see the list.", "unknown-token")

    def find(self, token: str, *, roles: Sequence[str] = (AGENT_ROLE,)) -> AgentToken | None:
        """Return what a token of these roles stands for; None where it is unknown, wrong, revoked or expired."""
        prefix, _, rest = token.partition("_")
        token_id, _, secret = rest.partition("_")
        row = self._storage.find_token(token_id) if prefix == _PREFIX else None
        salt, digest, role = (*_UNKNOWN, AGENT_ROLE) if row is None else (row.salt, row.digest, row.role)
        is_right = hmac.compare_digest(_make_digest(salt, secret, role), digest)
        if row is None or not is_right or role not in roles:
            return None
        agent_token = self._describe_token(row)
        return None if agent_token.has_expired else agent_token

    def is_live(self, token_id: str) -> bool:
        """Tell whether the token with this id is neither revoked nor expired."""
        row = self._storage.find_token(token_id)
        return row is not None and not self._describe_token(row).has_expired

    def _describe_token(self, row: TokenRow) -> AgentToken:
        has_expired = row.expires is not None and row.expires <= self._clock.now()
        return AgentToken(
            id=row.id, agent=row.agent, created=row.created, expires=row.expires, has_expired=has_expired, role=row.role
        )


def open_tokens(journal: Journal | None, *, file: str | Path | None = None, clock: Clock | None = None) -> Tokens:
    """
    Return the tokens of a journal, or of a file where there is no journal or it keeps none, as one in memory.

    Args:
        journal: The registry's.
        file: The file; by default `praval_tools.tokens` in the working directory. Named, it is used in any case.
        clock: The registry's.
    """
    storage: TokenStorage | None = None if journal is None else getattr(journal.store, "tokens", None)
    if storage is None or file is not None:
        storage = TokenFile(Path(file or DEFAULT_FILE))
    return Tokens(storage=storage, clock=clock or SystemClock())


def _make_digest(salt: bytes, secret: str, role: str) -> bytes:
    """
    Return the digest of a secret; it is random and long, so that a fast hash cannot be searched.

    That of a person's token holds the role: a process of an older version, which knows no roles, takes it for wrong.
    """
    text = secret if role == AGENT_ROLE else f"{role} {secret}"
    return hashlib.sha256(salt + text.encode("utf-8", "surrogatepass")).digest()
