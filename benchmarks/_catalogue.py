"""The catalogue: declaring, registering, looking up, searching and exporting, at 100 and at 100,000 tools."""

from __future__ import annotations

import json
import random
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, Final

from _measure import Case, Figure, alternate, calmest, compare, quartiles, settle, sync_case
from _peers import add, bare, declarers, praval_catalogue

from praval_tools import Agent, Tool, ToolRegistry, tool

TOOLS_PER_AGENT: Final = 10
_HITS: Final = 10
_SOURCE: Final = '''\
def {name}(x: float, y: float = 1.0) -> float:
    """
    Add two numbers.

    Args:
        x: One number.
        y: The other.
    """
    return x + y
'''


def functions(count: int, prefix: str) -> list[Callable[..., Any]]:
    """Return functions of their own code objects, as a program that declares many tools has them."""
    scope: dict[str, Any] = {"__name__": __name__}
    source = "\n".join(_SOURCE.format(name=f"{prefix}{number}") for number in range(count))
    exec(compile(source, f"<{prefix}>", "exec"), scope)
    return [scope[f"{prefix}{number}"] for number in range(count)]


# ── declaring ────────────────────────────────────────────────────────────────────────────────────


def declaring(installed: dict[str, str], count: int) -> Iterator[Figure]:
    """Yield what declaring costs: time, bytes, many at once, and the schema that is made at first use."""

    def ours(registry: ToolRegistry) -> Callable[[Callable[..., Any]], object]:
        def declare(function: Callable[..., Any]) -> object:
            return tool(owned_by="bench", registry=registry)(function)

        return declare

    registry = ToolRegistry(name="declaring")
    yield _times("declare:time", ours(registry), 2_000)
    yield _times("declare:tool-only", Tool.from_function, 2_000)
    yield Figure("declare:bytes", _bytes(ours(registry), functions(1_000, "sized_")) / 1000, "KB")
    fresh = ToolRegistry(name="many")
    yield _many(fresh, count)
    yield _schema(fresh)
    for key, made_with, declare in declarers(installed):
        yield _times(f"declare:{key}:time", declare, 200, made_with)
        size = _bytes(declare, functions(200, f"sized_{key.replace('-', '_')}_")) / 1000
        yield Figure(f"declare:{key}:bytes", size, "KB", note=made_with)


def _times(key: str, declare: Callable[[Callable[..., Any]], object], count: int, made_with: str = "") -> Figure:
    """Return the time of one declaration: twenty blocks, of each the median."""
    prefix = "".join(letter if letter.isalnum() else "_" for letter in key)
    made, kept, blocks = functions(count + 20, prefix), list[object](), list[float]()
    kept.extend(declare(function) for function in made[:20])
    settle()
    for block in range(20):
        spent: list[float] = []
        for function in made[20 + block * count // 20 : 20 + (block + 1) * count // 20]:
            start = time.perf_counter()
            kept.append(declare(function))
            spent.append(time.perf_counter() - start)
        blocks.append(statistics.median(spent) * 1e6)
    return calmest(key, blocks, "us", made_with)


def _many(registry: ToolRegistry, count: int) -> Figure:
    """Return the seconds that 10,000 declarations take in one go."""
    made = functions(count, "many_")
    settle()
    start = time.process_time()
    for function in made:
        tool(owned_by="bench", registry=registry)(function)
    return Figure("declare:10000", (time.process_time() - start) * 10_000 / count, "s")


def _bytes(declare: Callable[[Callable[..., Any]], object], made: list[Callable[..., Any]]) -> float:
    kept: list[object] = []
    settle()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for function in made:
        kept.append(declare(function))
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / len(made)


def _schema(registry: ToolRegistry) -> Figure:
    tools = registry.list_all_tools()[:500]
    spent: list[float] = []
    kept = [tools[0].parameters]  # the first one pays for imports
    for one in tools[1:]:
        start = time.perf_counter()
        kept.append(one.parameters)
        spent.append((time.perf_counter() - start) * 1000)
    return Figure("declare:schema", statistics.median(spent), "ms", *quartiles(spent), note="the first 500 tools")


# ── many tools, many agents ──────────────────────────────────────────────────────────────────────


def catalogue(count: int, blocks: int = 10) -> tuple[ToolRegistry, list[float]]:
    """
    Return a registry of *count* tools registered one by one, ten an agent, and the seconds that each tenth took.

    Making the `Tool` objects is not part of the seconds.
    """
    registry, spent = ToolRegistry(name=f"{count} tools"), list[float]()
    owners = max(1, count // TOOLS_PER_AGENT)
    made = [
        Tool.from_function(
            add, name=f"tool_{number}", owned_by=f"agent_{number % owners}", category=f"category_{number % owners}",
            tags=(f"tag_{number % owners}",), shared=number < 5,
        )
        for number in range(count)
    ]  # fmt: skip
    settle()
    for block in range(blocks):
        start = time.process_time()
        for one in made[count * block // blocks : count * (block + 1) // blocks]:
            registry.register_tool(one)
        spent.append(time.process_time() - start)
    for number in range(owners):
        Agent(f"agent_{number}", registry=registry)
    return registry, spent


def looking(large: ToolRegistry, rounds: int) -> Iterator[Figure]:
    """Yield how much longer ten agents' look-ups and calls take in the large registry than in one of 100 tools."""
    small, _ = catalogue(100)
    for key in ("get_tools_for_agent", "explain", "call"):
        first, second = (_turns(key, registry) for registry in (small, large))
        before, after = alternate(first, second, rounds=rounds)
        yield Figure(f"scale:{key}", after.ratio, "x", *quartiles(after.ratios))
        yield Figure(f"scale:{key}:100:us", before.time * 1e6 / 10, "us")
        yield Figure(f"scale:{key}:{len(large)}:us", after.time * 1e6 / 10, "us")


def _turns(key: str, registry: ToolRegistry) -> Case:
    """Return ten agents' turns, spread over the catalogue, as one statement; each agent's first tool is a plain one."""
    owners, title = max(1, len(registry) // TOOLS_PER_AGENT), f"{key}:{len(registry)}"
    agents = [owners * turn // 10 for turn in range(10)]
    pairs = [(f"agent_{one}", f"tool_{one + owners}") for one in agents]
    if key == "call":
        calls = [(registry.toolset(agent).call, name) for agent, name in pairs]
        return sync_case(title, title, "for c, name in calls: c(name, x=1.5, y=2.5)", calls=calls)
    if key == "explain":
        return sync_case(title, title, "for agent, name in pairs: e(agent, name)", pairs=pairs, e=registry.explain)
    return sync_case(title, title, "for agent, _ in pairs: g(agent)", pairs=pairs, g=registry.get_tools_for_agent)


def registering(spent: list[float]) -> Iterator[Figure]:
    """Yield the whole and the linearity of registering tools one by one."""
    yield Figure("register:100000", sum(spent), "s")
    yield Figure("register:linear", spent[-1] / spent[0], "x")


# ── searching ────────────────────────────────────────────────────────────────────────────────────


def searching(large: ToolRegistry, installed: dict[str, str], rounds: int) -> Iterator[Figure]:
    """Yield searches with ten hits in the large registry against one of 1,000 tools, and Praval's scan of as many."""
    small, _ = catalogue(1_000)
    words = {"owner": ("owned_by", "agent_7"), "category": ("category", "category_7"), "tag": ("tags", ["tag_7"])}
    for key, (parameter, value) in words.items():
        statement = f"s({parameter}=v)"
        first = sync_case(f"{key}:1000", "", statement, s=small.search_tools, v=value)
        second = sync_case(f"{key}:large", "", statement, s=large.search_tools, v=value)
        _, after = alternate(first, second, rounds=rounds)
        yield Figure(f"search:{key}", after.ratio, "x", *quartiles(after.ratios))
        yield Figure(f"search:{key}:us", after.time * 1e6, "us")
    yield _hits(rounds)
    if "praval" in installed:
        yield from _scan(large)


def _hits(rounds: int) -> Figure:
    registry = ToolRegistry(name="hits")
    for number in range(1_100):
        name = "many" if number < 1_000 else "few"
        registry.register_tool(Tool.from_function(add, name=f"tool_{number}", category=name))
    few = sync_case("few", "", "s(category='few')", s=registry.search_tools)
    many = sync_case("many", "", "s(category='many')", s=registry.search_tools)
    _, after = alternate(few, many, rounds=rounds)
    return Figure("search:hits", after.ratio, "x", *quartiles(after.ratios))


def _scan(large: ToolRegistry) -> Iterator[Figure]:
    count = len(large)
    owners = max(1, count // TOOLS_PER_AGENT)
    theirs = praval_catalogue(
        [(f"tool_{n}", f"agent_{n % owners}", f"category_{n % owners}", f"tag_{n % owners}") for n in range(count)]
    )
    words: dict[str, dict[str, Any]] = {
        "owner": {"owned_by": "agent_7"}, "category": {"category": "category_7"}, "tag": {"tags": ["tag_7"]},
    }  # fmt: skip
    for key, wanted in words.items():
        spent: list[float] = []
        for _ in range(7):
            start = time.process_time()
            theirs.search_tools(**wanted)
            spent.append(time.process_time() - start)
        yield Figure(f"search:{key}:praval:us", statistics.median(spent) * 1e6, "us")


# ── searching by words ───────────────────────────────────────────────────────────────────────────


def finding(count: int, rounds: int) -> Iterator[Figure]:
    """
    Yield searches by words over *count* tools, with questions of six words to 60, and what an index costs.

    The words come by Zipf's law, as those of texts do: a few are in most tools, most are in few.
    """
    chance = random.Random(1)
    vocabulary = [f"{first}{second}{third}" for first in _SYLLABLES for second in _SYLLABLES for third in _SYLLABLES]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    chance.shuffle(vocabulary)

    def say(words: int) -> str:
        return " ".join(chance.choices(vocabulary, weights, k=words))

    registry = ToolRegistry(name="words")
    with registry.change():
        for number in range(count):
            schema = {"type": "object", "properties": {f"{say(1)}_{at}": {"description": say(8)} for at in range(3)}}
            registry.register_tool(Tool(f"{say(2).replace(' ', '_')}_{number}", say(15), schema, add, shared=True))
    yield Figure("find:first", _spend(lambda: registry.search(say(6), "first")), "s", note="resolves and indexes")
    yield Figure("find:second-agent", _spend(lambda: registry.search(say(6), "second")), "s")
    spent = [_spend(lambda: registry.search(say(chance.randint(6, 60)), "first")) * 1000 for _ in range(rounds * 20)]
    yield Figure("find:words", statistics.median(spent), "ms", *quartiles(spent), f"{count:,} tools")
    yield Figure("find:slowest", max(spent), "ms", note=f"of {len(spent)} questions")
    registry.block(next(iter(registry)), "first")
    yield Figure("find:after-block", _spend(lambda: registry.search(say(6), "first")) * 1000, "ms")


_SYLLABLES: Final = ("ba", "de", "fi", "go", "ku", "la", "mi", "no", "pu", "ra", "se", "ti", "vo", "wa", "xe", "zu")


def _spend(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


# ── exporting ────────────────────────────────────────────────────────────────────────────────────


def exporting(rounds: int) -> Iterator[Figure]:
    """Yield the export of an agent's 20 tools from a registry that does not change."""
    registry = ToolRegistry(name="exports")
    for function in functions(20, "exported_"):
        tool(owned_by="exporter", registry=registry)(function)
    Agent("exporter", registry=registry)
    toolset = registry.toolset("exporter")
    cases = [
        sync_case("export:schemas_json", "toolset.schemas_json()", "s()", s=toolset.schemas_json),
        sync_case("export:schemas", "toolset.schemas()", "s()", s=toolset.schemas),
    ]
    for key, series in compare(bare(), cases, rounds=rounds).items():
        if key != "bare":
            yield series.alone(key)
    yield from _from_scratch(1_000)


def _from_scratch(count: int) -> Iterator[Figure]:
    """Yield what the first export of many tools takes of the time that `json.dumps` takes for the same data."""
    registry, ratios = ToolRegistry(name="scratch"), list[float]()
    for function in functions(count, "scratch_"):
        tool(owned_by="exporter", registry=registry)(function)
    Agent("exporter", registry=registry)
    for one in registry:  # a schema is made once in a tool's life, and has a figure of its own
        one.parameters
    for _ in range(9):
        toolset = registry.fork().toolset("exporter")  # which kept nothing yet
        start = time.process_time()
        text = toolset.schemas_json()
        spent = time.process_time() - start
        made = json.loads(text)
        start = time.process_time()
        json.dumps(made)
        ratios.append(spent / (time.process_time() - start))
    yield Figure("export:fresh", statistics.median(ratios), "x", *quartiles(ratios), f"{count:,} tools")
