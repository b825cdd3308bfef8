# Tests of: tokens, token_file, token_table, 0002_tokens, 0004_token_roles
"""Tokens stand for agents, are shown once, and are the same for every process that uses their store."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from clocks import HandClock
from store_rig import make_database

from praval_tools import Agent, JournalError, NotOwnerError, ToolRegistry, ToolUsageError
from praval_tools.errors import InvalidNameError
from praval_tools.execution.plugin_code import bind_function
from praval_tools.journal import open_journal
from praval_tools.journal.tokens import Tokens, open_tokens


@pytest.fixture(params=["journal", "database", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path | str]:
    """Where tokens are: a journal in a file or a database, or a file of their own."""
    if request.param == "database":
        with make_database() as url:
            yield url
    else:
        yield tmp_path / ("runs.db" if request.param == "journal" else "tokens")


@pytest.fixture
def clock() -> HandClock:
    """A clock that the test moves; each look at it is a second later."""

    class TickingClock(HandClock):
        def now(self) -> datetime:
            self.moment += timedelta(seconds=1)
            return self.moment

    return TickingClock()


@pytest.fixture
def tokens(place: Path | str, clock: HandClock) -> Iterator[Tokens]:
    """The tokens there."""
    if isinstance(place, Path) and place.name == "tokens":
        yield open_tokens(None, file=place, clock=clock)
        return
    journal = open_journal(place)
    yield open_tokens(journal, clock=clock)
    journal.close()


class TestTokens:
    def test_stand_for_their_agents(self, tokens: Tokens) -> None:
        """Each token finds its own agent, any number of them the same."""
        first, second, third = tokens.add("analyst"), tokens.add("clerk"), tokens.add("analyst")

        assert ["analyst", "clerk", "analyst"] == [
            getattr(tokens.find(one), "agent", None) for one in (first, second, third)
        ]
        assert ["analyst", "clerk", "analyst"] == [one.agent for one in tokens.list()]
        assert 3 == len({first, second, third})

    @pytest.mark.parametrize("spoil", [
        lambda token: "", lambda token: token[:-1], lambda token: f"{token}x", lambda token: token.upper(),
        lambda token: token.rpartition("_")[0], lambda token: token.replace("pvt", "x"), lambda token: "pvt__",
        lambda token: f"pvt_{'0' * 12}_{token.split('_', 2)[2]}", lambda token: f"{token}\udc80", lambda token: "é",
    ])  # fmt: skip
    def test_are_found_by_the_whole_text_alone(self, tokens: Tokens, spoil: object) -> None:
        """What is not exactly a token stands for nobody."""
        token = tokens.add("analyst")

        assert tokens.find(spoil(token)) is None  # type: ignore[operator]

    def test_end_when_they_are_revoked(self, tokens: Tokens) -> None:
        """A revoked token stands for nobody, the others go on; an unknown id is an error."""
        token, other = tokens.add("analyst"), tokens.add("analyst")

        tokens.revoke(tokens.list()[0].id)

        assert (None, "analyst") == (tokens.find(token), getattr(tokens.find(other), "agent", None))
        with pytest.raises(ToolUsageError, match="There is no token 'x'"):
            tokens.revoke("x")

    def test_expire(self, tokens: Tokens, clock: HandClock) -> None:
        """From its expiry on a token stands for nobody, and the list says so."""
        token = tokens.add("analyst", expires=timedelta(days=30))
        clock.moment += timedelta(days=29)
        assert tokens.find(token) is not None

        clock.moment += timedelta(days=1)

        assert tokens.find(token) is None
        assert [True] == [one.has_expired for one in tokens.list()]

    @pytest.mark.parametrize("expires", [timedelta(0), timedelta(days=-1), datetime(2099, 1, 1)])
    def test_do_not_begin_expired(self, tokens: Tokens, expires: timedelta | datetime) -> None:
        """An expiry in the past, or without a time zone, is refused and adds nothing."""
        with pytest.raises(ToolUsageError, match="cannot expire"):
            tokens.add("analyst", expires=expires)
        assert [] == tokens.list()

    def test_a_moment_that_has_no_date_in_utc(self, tokens: Tokens) -> None:
        """It is as far away as a time span that no calendar has: the token never expires, and can be listed."""
        moment = datetime(9999, 12, 31, 23, 59, tzinfo=timezone(timedelta(hours=-14)))
        for expires in (moment, timedelta.max):
            tokens.add("analyst", expires=expires)
        assert [None, None] == [one.expires for one in tokens.list()]

    def test_stand_for_names_that_agents_can_have(self, tokens: Tokens) -> None:
        """A name that no agent can have is refused."""
        with pytest.raises(InvalidNameError):
            tokens.add("plugin:x")
        assert [] == tokens.list()

    def test_stand_for_no_delegate(self, tokens: Tokens) -> None:
        """A delegate may less than its agent, which a token would speak for: the name alone says that it is meant."""
        with pytest.raises(InvalidNameError, match="acts for 'boss'"):
            tokens.add(Agent("boss", registry=ToolRegistry()).delegate("analyst"))
        assert [] == tokens.list()

    @pytest.mark.parametrize("actor", ["agent", "plugin"])
    def test_come_from_the_operator_alone(self, tokens: Tokens, actor: str) -> None:
        """No code of an agent or plugin makes itself a token of another agent, or ends one."""
        tokens.add("boss")
        (before,) = tokens.list()
        for change in (lambda: tokens.add("boss"), lambda: tokens.revoke(before.id)):
            with pytest.raises(NotOwnerError, match="token"):
                bind_function(change, "plugin:acme")() if actor == "plugin" else Agent(
                    "mallory", registry=ToolRegistry(), function=change
                )()
        assert [before] == tokens.list()


class TestRoles:
    @pytest.mark.parametrize("role", ["operator", "viewer"])
    def test_a_person_is_no_agent_and_an_agent_no_person(self, tokens: Tokens, role: str) -> None:
        """Where agents' tokens are asked for, a person's stands for nobody, and the other way round."""
        person, agent = tokens.add("olga", role=role), tokens.add("olga")

        assert tokens.find(person) is None
        assert tokens.find(agent, roles=("operator", "viewer")) is None
        found = tokens.find(person, roles=("operator", "viewer"))
        assert found is not None and ("olga", role) == (found.agent, found.role)
        assert [role, "agent"] == [token.role for token in tokens.list()]

    def test_a_role_that_is_changed_where_tokens_are_kept_ends_the_token(self, tokens: Tokens) -> None:
        """The digest holds the role: neither another one nor a program that knows no roles takes the token."""
        person = tokens.add("olga", role="viewer")
        (row,) = tokens._storage.list_tokens()
        for role in ("agent", "operator"):
            tokens._storage.delete_token(row.id)
            tokens._storage.add_token(msgspec.structs.replace(row, role=role))
            assert tokens.find(person, roles=("agent", "operator", "viewer")) is None

    def test_there_are_no_others(self, tokens: Tokens) -> None:
        """A role that is unknown is refused, and no token is made."""
        with pytest.raises(ToolUsageError, match="one of the roles"):
            tokens.add("olga", role="admin")
        assert [] == tokens.list()

    def test_a_token_is_live_until_it_is_revoked_or_expires(self, tokens: Tokens, clock: HandClock) -> None:
        """By its id, for sessions that it began."""
        tokens.add("olga", role="operator", expires=timedelta(days=1))
        tokens.add("pia", role="operator")
        first, second = (token.id for token in tokens.list())
        assert (True, True, False) == (tokens.is_live(first), tokens.is_live(second), tokens.is_live("none"))

        clock.moment += timedelta(days=1)
        tokens.revoke(second)

        assert (False, False) == (tokens.is_live(first), tokens.is_live(second))


class TestStorage:
    def test_keeps_no_token(self, tokens: Tokens, place: Path | str) -> None:
        """Nothing that is written holds the secret part, nor a digest without a salt of its own."""
        token = tokens.add("analyst")
        tokens.add("analyst")
        secret = token.split("_", 2)[2]
        rows = tokens._storage.list_tokens()
        written = repr(rows).encode()
        if isinstance(place, Path):
            written += b"".join(path.read_bytes() for path in place.parent.iterdir() if path.is_file())

        assert secret.encode() not in written
        assert 2 == len({row.salt for row in rows}) == len({row.digest for row in rows})

    def test_is_shared_by_processes(self, tokens: Tokens, place: Path | str) -> None:
        """What another process adds and revokes counts here at the next look."""
        token = tokens.add("analyst")
        program = (
            "import sys\nfrom pathlib import Path\nfrom praval_tools.journal import open_journal\n"
            "from praval_tools.journal.tokens import open_tokens\n"
            "path = sys.argv[1]\n"
            "tokens = open_tokens(None, file=path) if path.endswith('tokens') else open_tokens(open_journal(path))\n"
            "tokens.revoke(tokens.list()[0].id)\nprint(tokens.add('clerk'))\n"
        )
        done = subprocess.run([sys.executable, "-c", program, str(place)], capture_output=True, text=True, check=True)

        assert (None, "clerk") == (tokens.find(token), getattr(tokens.find(done.stdout.strip()), "agent", None))

    def test_in_a_file_is_for_its_user_alone(self, tmp_path: Path) -> None:
        """The file can be read by nobody else."""
        path = tmp_path / "tokens"
        open_tokens(None, file=path).add("analyst")

        assert 0o600 == stat.S_IMODE(os.stat(path).st_mode)
        assert 1 == len(json.loads(path.read_text()))

    @pytest.mark.parametrize("mode", [0o644, 0o666, 0o620])
    def test_in_a_file_that_others_may_have_written_count_for_nothing(self, mode: int, tmp_path: Path) -> None:
        """
        A file with wider permissions is refused, for finding and for adding, with the fix.

        Such a file comes with somebody's folder, or can be changed by others, and its tokens stood for any agent.
        """
        tokens = open_tokens(None, file=tmp_path / "tokens")
        token = tokens.add("analyst")
        (tmp_path / "tokens").chmod(mode)

        for use in (lambda: tokens.find(token), lambda: tokens.add("clerk"), tokens.list):
            with pytest.raises(JournalError, match=f"mode {mode:04o}.*chmod 600"):
                use()

    def test_in_a_linked_file_end_everywhere(self, tmp_path: Path) -> None:
        """What is revoked by a link to the file is revoked for those who use the file, and the link stays."""
        path, link = tmp_path / "tokens", tmp_path / "link"
        tokens = open_tokens(None, file=path)
        token = tokens.add("analyst")
        link.symlink_to(path)

        open_tokens(None, file=link).revoke(tokens.list()[0].id)

        assert tokens.find(token) is None
        assert link.is_symlink()

    def test_in_a_named_pipe_are_refused(self, tmp_path: Path) -> None:
        """A file that gives no end is refused at once."""
        os.mkfifo(tmp_path / "tokens", 0o600)

        with pytest.raises(JournalError, match="not a regular file"):
            open_tokens(None, file=tmp_path / "tokens").find("pvt_a_b")

    def test_of_changes_in_one_moment_are_the_last(self, tmp_path: Path) -> None:
        """A file that was changed without another time, size or name of its own is read anew."""
        path = tmp_path / "tokens"
        tokens = open_tokens(None, file=path)
        token, status = tokens.add("analyst"), os.stat(path)
        assert tokens.find(token) is not None

        path.write_text(path.read_text().replace(tokens.list()[0].id, "0" * 12))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

        assert tokens.find(token) is None

    def test_are_added_after_a_process_was_killed(self, tmp_path: Path) -> None:
        """Half a file that a killed process left stops nobody, and does not stay."""
        (tmp_path / "tokens.draft").write_text("[{")

        assert open_tokens(None, file=tmp_path / "tokens").add("analyst")
        assert ["tokens", "tokens.lock"] == sorted(file.name for file in tmp_path.iterdir())

    @pytest.mark.parametrize("content", ["tokens!", "", "{}", "null", "[" * 100_000, '[{"id": "a", "agent": "b"}]'])
    def test_in_a_broken_file_is_refused(self, content: str, tmp_path: Path) -> None:
        """A file that holds something else is named, and left as it is."""
        path = tmp_path / "tokens"
        path.write_text(content)
        path.chmod(0o600)

        for use in (
            lambda: open_tokens(None, file=path).find("pvt_a_b"),
            lambda: open_tokens(None, file=path).add("ann"),
        ):
            with pytest.raises(JournalError, match="it holds no tokens"):
                use()
        assert content == path.read_text()

    def test_of_a_journal_in_memory_is_a_file(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A journal that ends with the process keeps no tokens: they are in a file of the working directory."""
        monkeypatch.chdir(tmp_path)

        open_tokens(open_journal("memory")).add("analyst")

        assert ["analyst"] == [one.agent for one in open_tokens(None).list()]
        assert (tmp_path / "praval_tools.tokens").is_file()
