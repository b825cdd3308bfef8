"""An index of tools in SQLite's FTS5, in memory: which tools have the words of a question, the best first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from weakref import finalize

from praval_tools.errors import ToolUsageError
from praval_tools.schema.docstrings import extract_parameter_descriptions
from praval_tools.search.words import list_query_words, list_words
from praval_tools.tools.tool import AnyTool

_COLUMNS: Final = "name, description, parameters, explanations, tags"
_TOKENIZER: Final = "content='', tokenize=\"porter unicode61 remove_diacritics 2 categories 'L* N* Co Mn Mc'\""
_TABLES: Final = (
    f"CREATE VIRTUAL TABLE tools USING fts5({_COLUMNS}, {_TOKENIZER})",
    "CREATE VIRTUAL TABLE tool_words USING fts5vocab(tools, row)",
    f"CREATE VIRTUAL TABLE question USING fts5(word, {_TOKENIZER})",
    "CREATE VIRTUAL TABLE question_words USING fts5vocab(question, instance)",
)
"""The tools; how many of them have a word; a question, each word a row; the stems of these."""
_ADD: Final = f"INSERT INTO tools(rowid, {_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608
_DELETE: Final = f"INSERT INTO tools(tools, rowid, {_COLUMNS}) VALUES ('delete', ?, ?, ?, ?, ?, ?)"  # noqa: S608
_ASK: Final = "INSERT INTO question(rowid, word) VALUES (?, ?)"
_COUNT: Final = (
    "SELECT sum(known.doc) AS count, asked.doc FROM question_words asked JOIN tool_words known "
    "ON known.term = asked.term GROUP BY asked.doc ORDER BY count, asked.doc"
)
_FIND: Final = (
    "SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, 2.0, 1.0, 1.0, 0.5, 1.0), rowid LIMIT ? OFFSET ?"
)
"""A word counts twice in the name, and half in what is said of the parameters."""
_FIRST_PAGE: Final = 100
_MAX_RANKED: Final = 5_000
"""In how many tools the words of a question may be, added up; beyond that the commonest words do not count."""


class ToolText(NamedTuple):
    """The words by which a tool is found, a text for each column of the index."""

    name: str
    description: str
    parameters: str
    explanations: str
    tags: str


def make_tool_text(tool: AnyTool) -> ToolText:
    """Return the words by which *tool* is found; its schema need not be compiled for that."""
    parameters = dict(_iter_parameters(tool))
    meta = tool.metadata
    tags = [*meta.all_tags, *([] if meta.category == "general" else [meta.category])]
    texts = (f"{tool.name} {meta.title}", tool.description, " ".join(parameters), " ".join(parameters.values()),
             " ".join(tags))  # fmt: skip
    return ToolText(*(" ".join(list_words(text)) for text in texts))


def _iter_parameters(tool: AnyTool) -> Iterator[tuple[str, str]]:
    """Yield each parameter, with what the schema or the docstring says of it."""
    implementation = tool.implementation
    if implementation.supplied_schema is None:
        descriptions = extract_parameter_descriptions(implementation.docstring)
        for parameter in implementation.signature.parameters:
            yield parameter.name, descriptions.get(parameter.name, "")
        return
    properties = implementation.supplied_schema.get("properties")
    for name, schema in properties.items() if isinstance(properties, Mapping) else ():
        description = schema.get("description") if isinstance(schema, Mapping) else None
        yield str(name), description if isinstance(description, str) else ""


class ToolIndex:
    """
    The index of the tools that one principal may call, and of no others: what is not in it leaves no trace in ranks.

    Not thread-safe.

    Raises:
        ToolUsageError: This Python's SQLite is built without FTS5.
    """

    def __init__(self) -> None:
        import sqlite3  # only programs that search need it

        self._connection = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        finalize(self, self._connection.close)
        try:
            for table in _TABLES:
                self._connection.execute(table)
        except sqlite3.OperationalError as error:
            raise ToolUsageError(
                f"Searching for tools needs SQLite with FTS5, and that of this Python, {sqlite3.sqlite_version}, has "
                f"none ({error}): use a Python whose SQLite has it, or search_tools(name_pattern=…).",
                "no-full-text-search",
            ) from error

    def change(self, removed: Mapping[int, ToolText], added: Mapping[int, ToolText]) -> None:
        """Take out and add tools, by their numbers; what is taken out must be as it was added."""
        self._connection.execute("BEGIN")
        self._connection.executemany(_DELETE, ((number, *text) for number, text in removed.items()))
        self._connection.executemany(_ADD, ((number, *text) for number, text in added.items()))
        self._connection.execute("COMMIT")

    def find(self, question: str) -> Iterator[int]:
        """Yield the numbers of the tools that have a word of *question*, the best first; equal ones by number."""
        words = self._choose_words(list_query_words(question))
        if words:
            query = " OR ".join(f'"{word}"' for word in words)
            for limit, offset in ((_FIRST_PAGE, 0), (-1, _FIRST_PAGE)):  # few are asked for, and cost less to sort
                for (number,) in self._connection.execute(_FIND, (query, limit, offset)):
                    yield number

    def _choose_words(self, words: Sequence[str]) -> list[str]:
        """Return the words that any tool has, the rarest first, without those that would make the search slow."""
        chosen, ranked = list[str](), 0
        self._connection.execute("BEGIN")
        try:
            self._connection.executemany(_ASK, enumerate(words))
            for count, place in self._connection.execute(_COUNT):
                ranked += count
                if chosen and ranked > _MAX_RANKED:
                    break
                chosen.append(words[place])
        finally:
            self._connection.execute("ROLLBACK")
        return chosen
