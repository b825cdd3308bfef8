"""
Drivers that are killed at any moment and go on: no result that was returned is lost, no side effect happens twice.

`HYPOTHESIS_PROFILE=ci` kills more than 200 times, at least 10 times in each window; else it is a tenth of that.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import attrs
import kill_driver
import pytest
from kill_driver import CALLS, WINDOWS, honours, tool_of
from store_rig import find_server_problem, make_location

from praval_tools.journal import open_journal

MANY = os.environ.get("HYPOTHESIS_PROFILE") in ("ci", "fuzz")
ROUNDS = 7 if MANY else 1
"""How often a scenario kills in each of the four windows."""

AT_ONCE = -1

KEY = "a key that all processes share"

RANDOM = "at random"
FINAL = {"ok", "tool_error"}


@attrs.frozen
class Scenario:
    """How the driver of one run makes its calls."""

    name: str
    ids: str
    workers: bool
    seed: int
    durability: str = "full"
    kind: str = "sqlite"


SCENARIOS = [
    Scenario("one driver, ids of its own", "given", False, 1),
    Scenario("one driver, new ids at every start", "new", False, 2),
    Scenario("four workers, no ids", "none", True, 3),
    Scenario("four workers, new ids at every start", "new", True, 4),
    Scenario("one driver, no ids", "none", False, 5),
    Scenario("four workers, ids of their own", "given", True, 6),
    Scenario("one driver, results not waited for", "none", False, 7, "intent"),
    Scenario("four workers, results not waited for", "new", True, 8, "intent"),
    Scenario("one driver, PostgreSQL", "given", False, 9, kind="postgres"),
    Scenario("four workers, PostgreSQL", "new", True, 10, kind="postgres"),
]


class Story:
    """What the drivers of one scenario said, life by life."""

    def __init__(self, scenario: Scenario, folder: Path, where: Path | str) -> None:
        self.scenario, self.folder, self.where = scenario, folder, where
        self.kills: Counter[str] = Counter()
        self.acks: defaultdict[int, list[tuple[str, Any]]] = defaultdict(list)
        self.doubtful: list[int] = []
        self.settled: dict[int, str] = {}
        self._chance = random.Random(scenario.seed)
        self._life = 0

    def tell(self) -> None:
        """Let drivers be killed in turn in each window and at random, then go on to the end; settle, and go on."""
        command = [sys.executable, "-X", "faulthandler", kill_driver.__file__]
        environment = {**os.environ, **({} if isinstance(self.where, Path) else {"PRAVAL_TOOLS_KEY": KEY})}
        with subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as server:
            try:
                for _ in range(ROUNDS):
                    for window in WINDOWS:
                        self._live(server, window=window, passing=self._chance.randint(1, 4))
                    self._live(server, after=AT_ONCE)
                    self._live(server, after=self._chance.randint(1, len(self.acks) or 1))
                    self._live(server, after=len(self.acks) + self._chance.randint(1, 8))
                self._live(server)
                self.unsettled = {number: acks[-1] for number, acks in self.acks.items()}
                self._live(server, settle=True)
                self._live(server)
            finally:
                server.kill()

    def _live(
        self, server: Any, *, window: str | None = None, passing: int = 0, after: int = 0, settle: bool = False
    ) -> None:
        """Start a driver and listen to it; kill it as soon as it has acknowledged *after* results, or has begun."""
        self._life += 1
        mine = self.scenario
        order = {"folder": str(self.folder), "ids": mine.ids, "durability": mine.durability, "workers": mine.workers}
        how = {"where": str(self.where), "order": self._life, "window": window, "passing": passing, "settle": settle}
        server.stdin.write(json.dumps({**order, **how}) + "\n")
        server.stdin.flush()
        self.doubtful, pid, heard, came = [], 0, 0, RANDOM
        for line in server.stdout:
            word, _, rest = line.rstrip("\n").partition(" ")
            if word == "pid":
                pid = int(rest)
                if after == AT_ONCE:
                    os.kill(pid, signal.SIGKILL)
            elif word == "ack":
                number, outcome, value = rest.split(" ", 2)
                self.acks[int(number)].append((outcome, json.loads(value)))
                heard += 1
                if heard == after:
                    os.kill(pid, signal.SIGKILL)
            elif word == "window":
                came = rest
            elif word == "doubt":
                self.doubtful.append(int(rest))
            elif word == "settled":
                number, how_so = rest.split()
                self.settled[int(number)] = how_so
            elif word == "ended":
                assert int(rest) in (0, -signal.SIGKILL), f"life {self._life} of {self.scenario} ended with {rest}"
                if int(rest):
                    self.kills[came] += 1
                return
        raise AssertionError("the server ended")

    @property
    def effects(self) -> Counter[int]:
        """How often each effect happened."""
        lines = (self.folder / "effects").read_text().splitlines()
        return Counter(int(line.split()[1]) for line in lines)


@pytest.fixture(scope="module")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Story]]:
    """Tell the stories of all scenarios, several at once; those that need a server only where one answers."""
    with ExitStack() as stack:
        made = []
        for one in SCENARIOS:
            if one.kind == "sqlite" or not find_server_problem():
                folder = tmp_path_factory.mktemp("kill")
                made.append(Story(one, folder, stack.enter_context(make_location(one.kind, folder))))
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(Story.tell, made))
        yield made


@pytest.fixture(params=range(len(SCENARIOS)), ids=[one.name for one in SCENARIOS])
def story(request: pytest.FixtureRequest, stories: list[Story]) -> Iterator[Story]:
    """Give the story of each scenario in turn."""
    if request.param >= len(stories):
        pytest.skip(find_server_problem())
    yield stories[request.param]


class TestKill:
    def test_killed_in_every_window(self, stories: list[Story], tell: Callable[[str], None]) -> None:
        """Drivers died by SIGKILL in each of the four windows and at random moments, as often as is promised."""
        kills = sum((one.kills for one in stories), Counter[str]())
        counts = ", ".join(f"{window}: {kills[window]}" for window in (*WINDOWS, RANDOM))
        tell(f"{kills.total()} kills of {len(stories)} runs of {CALLS} calls ({counts})")

        wanted = 10 if MANY else 4
        assert [] == [window for window in WINDOWS if kills[window] < wanted]
        assert kills[RANDOM] >= wanted
        assert kills.total() >= (200 if MANY else 24)

    def test_exactly_once_where_the_key_is_honoured(self, story: Story) -> None:
        """The effect of every tool that looks at its idempotency key happened once, nested calls among them."""
        effects = story.effects

        assert [] == [number for number in range(CALLS) if honours(number) and effects[number] != 1]

    def test_at_most_once_for_the_others(self, story: Story) -> None:
        """No effect happened twice, not even where a person let a doubtful call run again that had not had it."""
        assert [] == [number for number, times in story.effects.items() if times > 1]

    def test_no_returned_result_is_lost(self, story: Story) -> None:
        """What was returned once is returned in every later life: value or error, the same."""
        for number, acks in sorted(story.acks.items()):
            final = [one for one in acks if one[0] in FINAL]
            begin = acks.index(final[0])
            later = acks[begin:]
            if story.scenario.durability == "intent" and not honours(number):  # it may have been lost, never in silence
                later = [one for one in later if one[0] != "in_doubt"]
            assert [final[0]] * len(later) == later, f"call {number} of {tool_of(number)}"
            assert {"in_doubt"} >= {outcome for outcome, _ in acks[:begin]}, f"call {number}"

    def test_every_effect_is_known_or_in_doubt(self, story: Story) -> None:
        """Before anything was settled each call had its result or was in doubt; only what looks at no key was."""
        outcomes = {number: outcome for number, (outcome, _) in story.unsettled.items()}

        assert set(range(CALLS)) == set(outcomes)
        assert FINAL | {"in_doubt"} >= set(outcomes.values())
        assert [] == [number for number, outcome in outcomes.items() if outcome == "in_doubt" and honours(number)]

    def test_doubt_is_reported_and_resolved(self, story: Story) -> None:
        """`run.in_doubt` named what the outcomes said, and each was settled; afterwards nothing was in doubt."""
        doubtful = {number for number, (outcome, _) in story.unsettled.items() if outcome == "in_doubt"}

        assert doubtful == set(story.settled)
        assert [] == story.doubtful
        for number in range(CALLS):
            outcome, value = story.acks[number][-1]
            assert ("tool_error" if number % 5 == kill_driver.BROKEN else "ok") == outcome
            assert number == (int(value.split()[1]) if outcome == "tool_error" else _number_of(value))

    def test_the_journal_is_whole(self, story: Story) -> None:
        """Its places have no gaps, each call ended once, and nothing is in doubt."""
        with open_journal(story.where) as journal:
            entries = list(journal.read(run_id="nightly"))
            (run,) = journal.runs()

        assert list(range(1, len(entries) + 1)) == [entry.run_seq for entry in entries]
        ends = Counter(entry.event.tool_call_id for entry in entries if entry.type == "agent_tool_result")
        orders = sum(tool_of(number) == "order" for number in range(CALLS))
        assert CALLS + orders == len(ends)
        assert {1} == set(ends.values())
        assert 0 == run.in_doubt


class TestSettling:
    def test_in_all_ways(self, stories: list[Story]) -> None:
        """Doubtful calls there were, and they were settled: by their result, by their error, by another run."""
        ways = Counter(way for one in stories for way in one.settled.values())

        assert ways.total() > 0
        assert not MANY or {"result", "error", "rerun"} == set(ways)


def _number_of(value: dict[str, Any]) -> int:
    return int(value["order"]["number"] if "order" in value else value["number"])
