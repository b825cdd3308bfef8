"""Sessions of the people who are logged in: kept in this process alone, and ended after a while."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from datetime import datetime
from typing import Final

from attrs import define, field

from praval_tools.clock import Clock
from praval_tools.journal.tokens import OPERATOR_ROLE
from praval_tools.web.server.logins import Login
from praval_tools.web.server.settings import PageSettings

MAX_SESSIONS_OF_PERSON: Final = 20
"""How many sessions a person has at once; one more ends the one that was used longest ago."""


@define(kw_only=True, eq=False)
class Session:
    """
    One log-in of a person in one browser.

    Args:
        id: What tells it from others inside; the browser's cookie cannot be made of it.
        login: Who logged in, as what, and by which token.
        started: When.
        last_used: When the person opened a page the last time.
        form_token: What each form of its pages holds.
    """

    id: str
    login: Login
    started: datetime
    last_used: datetime
    form_token: str = field(factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def is_operator(self) -> bool:
        """Whether the person may change something."""
        return self.login.role == OPERATOR_ROLE


class Sessions:
    """
    The sessions of one server, used in its event loop alone.

    Args:
        settings: How long they last.
        clock: Tells the time.
    """

    def __init__(self, settings: PageSettings, clock: Clock) -> None:
        self._settings, self._clock = settings, clock
        self._sessions: dict[str, Session] = {}

    def begin(self, login: Login) -> tuple[Session, str]:
        """Begin a session; return it, and the value of its cookie, which is not kept."""
        now, cookie = self._clock.now(), secrets.token_urlsafe(32)
        for session in list(self._sessions.values()):
            if not self.is_live(session):
                self.end(session)
        own = sorted(
            (each for each in self._sessions.values() if each.login.name == login.name), key=lambda each: each.last_used
        )
        for session in own[: max(len(own) + 1 - MAX_SESSIONS_OF_PERSON, 0)]:
            self.end(session)
        session = Session(id=_make_id(cookie), login=login, started=now, last_used=now)
        self._sessions[session.id] = session
        return session, cookie

    def find(self, cookie: str) -> Session | None:
        """Return the session of a cookie; None where there is none, or it is over."""
        session = self._sessions.get(_make_id(cookie))
        if session is None or self.is_live(session):
            return session
        self.end(session)
        return None

    def note_use(self, session: Session) -> None:
        """Let a session last on: its person opened a page."""
        session.last_used = self._clock.now()

    def is_live(self, session: Session) -> bool:
        """Tell whether a session goes on."""
        now = self._clock.now()
        return (
            session.id in self._sessions
            and now - session.last_used < self._settings.idle
            and now - session.started < self._settings.absolute
        )

    def end(self, session: Session) -> None:
        """End a session; safe to call twice."""
        self._sessions.pop(session.id, None)

    def list(self) -> Iterable[Session]:
        """Return the sessions, also those that expired and were not asked for since."""
        return tuple(self._sessions.values())


def _make_id(cookie: str) -> str:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).hexdigest()
