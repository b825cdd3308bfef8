"""What stands for the files of a configuration in records: in a journal, a file is known by its name alone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from praval_tools.config.files import ConfigDocument
from praval_tools.config_loading.declarations import ProblemCollector
from praval_tools.names import FILE_LABEL_PREFIX


def build_label(file: str | os.PathLike[str]) -> str:
    """Return what stands for a file in records, wherever it is and whatever is loaded beside it."""
    return f"{FILE_LABEL_PREFIX}{Path(file).name}"


def label_files(
    documents: Iterable[ConfigDocument], previous: Mapping[str, str], others: Mapping[str, str],
    problems: ProblemCollector, *, has_journal: bool,
) -> dict[str, str]:  # fmt: skip
    """
    Return what stands for each document in records, by its file.

    Args:
        documents: The files of a configuration.
        previous: The paths of the files that it had before, by what stands for them; without a journal they keep that.
        others: The paths of the files of other configurations in the registry, by what stands for them.
        problems: Receives what is wrong.
        has_journal: Whether files are known in a journal: two of one name are a problem; else the second is known by
            its path.
    """
    documents, labels = list(documents), dict[str, str]()
    present = {os.path.abspath(document.file) for document in documents}
    known = {path: label for label, path in previous.items() if path in present and not has_journal}
    paths = {**others, **{label: path for path, label in known.items()}}
    for document in documents:
        path = os.path.abspath(document.file)
        label = known.get(path) or build_label(document.file)
        if (other := paths.setdefault(label, path)) != path:
            label = f"{FILE_LABEL_PREFIX}{path}"
            if has_journal:
                text = f"a journal knows a file by its name, and {other} has the same; rename one of the two"
                problems.found.append(document.build_problem((), f"{path}: {text}"))
        labels[document.file] = label
    return labels
