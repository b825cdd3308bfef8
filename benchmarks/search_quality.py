"""
How well `registry.search` finds: recall@5 on public sets of questions, beside plain BM25 libraries.

`python benchmarks/search_quality.py --bfcl F --metatool F --ultratool F`

Nothing of the sets is kept here; say where they are:

- BFCL (Apache-2.0): the folder `bfcl_eval/data` of the package `bfcl-eval`, found by itself where it is installed;
- MetaTool's ToolE (MIT): the folder `dataset` of github.com/HowieHwong/MetaTool;
- UltraTool (no licence is given): the folder `data/Chinese-dataset` or `data/English-dataset` of
  github.com/JoeYing1019/UltraTool.

The libraries are measured where they are installed: `pip install rank_bm25 bm25s PyStemmer`. They get the same texts:
`rank_bm25` in lower case and split at blanks, as its documentation shows; `bm25s` with its stop words and a stemmer.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
import statistics
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from attrs import frozen

from praval_tools import DuplicateToolError, Tool, ToolRegistry

_HITS: Final = 5
_MAX_QUESTIONS: Final = 3_000
_BFCL: Final = (
    "simple_python", "simple_java", "simple_javascript", "multiple", "parallel", "parallel_multiple", "live_simple",
    "live_multiple", "live_parallel", "live_parallel_multiple",
)  # fmt: skip

Finder = Callable[[str], list[str]]


@frozen
class QuestionSet:
    """Tools by name, each with its description and its parameters' descriptions, and questions with the tools meant."""

    name: str
    tools: dict[str, tuple[str, dict[str, str]]]
    questions: list[tuple[str, set[str]]]


def read_bfcl(folder: Path) -> QuestionSet:
    """Return BFCL's questions to single tools; of several tools with one name the first counts."""
    tools: dict[str, tuple[str, dict[str, str]]] = {}
    questions = []
    for kind in _BFCL:
        answers = {one["id"]: one["ground_truth"] for one in _read_lines(folder / "possible_answer", kind)}
        for entry in _read_lines(folder, kind):
            for function in entry["function"]:
                tools.setdefault(function["name"], (function["description"], _describe(function["parameters"])))
            offered = {one["name"] for one in entry["function"]}
            meant = offered.intersection(name for call in answers[entry["id"]] for name in call)
            said = [message["content"] for turn in entry["question"] for message in turn if message["role"] == "user"]
            if meant:
                questions.append((" ".join(said), meant))
    return QuestionSet("BFCL v4", tools, questions)


def _read_lines(folder: Path, kind: str) -> Iterator[dict[str, Any]]:
    with (folder / f"BFCL_v4_{kind}.json").open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _describe(schema: dict[str, Any]) -> dict[str, str]:
    properties = schema.get("properties") or {}
    return {name: str(one.get("description", "")) for name, one in properties.items() if isinstance(one, dict)}


def read_metatool(folder: Path) -> QuestionSet:
    """Return ToolE's questions to one tool each."""
    texts = json.loads((folder / "plugin_des.json").read_text(encoding="utf-8"))
    with (folder / "data" / "all_clean_data.csv").open(encoding="utf-8", newline="") as file:
        questions = [(row["Query"], {row["Tool"]}) for row in csv.DictReader(file) if row["Tool"] in texts]
    return QuestionSet("MetaTool ToolE", {name: (text, {}) for name, text in texts.items()}, questions)


def read_ultratool(folder: Path) -> QuestionSet:
    """Return UltraTool's test questions, each of which needs several tools."""
    tools: dict[str, tuple[str, dict[str, str]]] = {}
    questions = []
    with (folder / "test.json").open(encoding="utf-8") as file:
        for entry in map(json.loads, file):
            for one in entry["tools"]:
                tools.setdefault(one["name"], (one["description"], _describe(one["arguments"])))
            used = {step["tool"].partition("(")[0] for step in entry["plan"]} & {one["name"] for one in entry["tools"]}
            if used:
                questions.append((entry["question"], used))
    return QuestionSet(f"UltraTool {folder.name.removesuffix('-dataset')}", tools, questions)


# ── finders ──────────────────────────────────────────────────────────────────────────────────────


def make_ours(tools: dict[str, tuple[str, dict[str, str]]]) -> Finder:
    """Return the search of a registry that has the tools; names that a registry refuses are changed a little."""
    registry, names = ToolRegistry(name="quality"), dict[str, str]()
    with registry.change():
        for name, (description, parameters) in tools.items():
            fitting = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
            fitting = fitting if fitting[:1].isalpha() else f"x_{fitting}"
            properties = {key: {"description": text} for key, text in parameters.items()}
            schema = {"type": "object", "properties": properties}
            try:
                registry.register_tool(Tool(fitting, description, schema, _do, shared=True))
            except DuplicateToolError:  # the sets have names that differ by case alone
                fitting = f"{fitting}_{len(names)}"
                registry.register_tool(Tool(fitting, description, schema, _do, shared=True))
            names[fitting] = name
    return lambda question: [names[tool.name] for tool in registry.search(question, "agent", _HITS)]


def _do(**arguments: object) -> None:
    """Do nothing."""


def make_rank_bm25(tools: dict[str, tuple[str, dict[str, str]]]) -> Finder:
    """Return the search of rank_bm25."""
    import numpy
    from rank_bm25 import BM25Okapi

    names = list(tools)
    index = BM25Okapi([_join(name, *tool).lower().split() for name, tool in tools.items()])
    return lambda question: [
        names[place] for place in numpy.argsort(-index.get_scores(question.lower().split()), kind="stable")[:_HITS]
    ]


def make_bm25s(tools: dict[str, tuple[str, dict[str, str]]]) -> Finder:
    """Return the search of bm25s."""
    import bm25s
    import Stemmer

    names, stemmer, index = list(tools), Stemmer.Stemmer("english"), bm25s.BM25()

    def split(texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, show_progress=False)

    index.index(split([_join(name, *tool) for name, tool in tools.items()]), show_progress=False)
    return lambda question: [
        names[place] for place in index.retrieve(split([question]), k=_HITS, show_progress=False)[0][0]
    ]


def _join(name: str, description: str, parameters: dict[str, str]) -> str:
    return " ".join((name, description, *parameters, *parameters.values()))


# ── measuring ────────────────────────────────────────────────────────────────────────────────────


def measure(questions: QuestionSet) -> None:
    """Print the recall of each finder, and the time of one search."""
    chosen = questions.questions
    if len(chosen) > _MAX_QUESTIONS:
        chosen = random.Random(1).sample(chosen, _MAX_QUESTIONS)
    print(f"{questions.name}: {len(questions.tools):,} tools, {len(chosen):,} questions")
    makers = {"praval_tools": make_ours, "bm25s": make_bm25s, "rank_bm25": make_rank_bm25}
    for name, make in makers.items():
        if find_spec(name) is None:
            print(f"  {name:14} is not installed")
            continue
        find, found, spent = make(questions.tools), list[float](), list[float]()
        for question, meant in chosen:
            start = time.process_time()
            hits = find(question)
            spent.append((time.process_time() - start) * 1000)
            found.append(len(meant.intersection(hits)) / len(meant))
        print(f"  {name:14} recall@{_HITS} {statistics.mean(found):6.1%}   {statistics.median(spent):.2f} ms")


def main() -> None:
    """Measure the sets that are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bfcl", type=Path, metavar="F")
    parser.add_argument("--metatool", type=Path, metavar="F")
    parser.add_argument("--ultratool", type=Path, metavar="F", action="append", default=[])
    options = parser.parse_args()
    package = find_spec("bfcl_eval")
    if options.bfcl is None and package is not None and package.origin is not None:
        options.bfcl = Path(package.origin).parent / "data"
    if options.bfcl is not None:
        measure(read_bfcl(options.bfcl))
    if options.metatool is not None:
        measure(read_metatool(options.metatool))
    for folder in options.ultratool:
        measure(read_ultratool(folder))


if __name__ == "__main__":
    main()
