"""The check of how documents read can fail, and the documents pass it."""

import pytest

from tests.prose import MOST_LINES_IN_ALL, ROOT, documents, faults


@pytest.mark.parametrize("path", documents(), ids=lambda path: path.name)
def test_documents_read_well(path):
    most = MOST_LINES_IN_ALL if path.name == "README.md" else None
    assert faults(path.read_text(encoding="utf-8"), most) == []


def test_every_document_is_checked():
    assert set(documents()) == {ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")}
    assert len(documents()) >= 17


def test_points_of_a_list_are_paragraphs_of_their_own():
    assert faults("- One.\n" * 9) == []
    (fault,) = faults("- One.\n" + "- " + "word " * 30 + ".")
    assert fault.startswith("a sentence of 3")


def test_long_sentences_are_named():
    (fault,) = faults("word " * 26 + "end.")
    assert fault.startswith("a sentence of 27 words")
    assert faults("word " * 20 + "end. " + "word " * 20 + "end.") == []


def test_long_paragraphs_and_documents_are_named():
    assert faults("One.\n" * 6) == ["a paragraph of over 5 lines: One. One. One. One. One. One."]
    assert faults("One.\n\n" * 61) == ["122 lines; at most 120"]


def test_words_to_avoid_are_named():
    (fault,) = faults("Five items a class are enough.")
    assert fault.startswith("'items a class', in place of 'items per class'")
    (fault,) = faults("<!-- made -->\n| 10 items a class | 93.9 |\n<!-- end -->")
    assert fault.startswith("'items a class', in place of 'items per class': | 10 items a class")
    assert faults("```\n| 10 items a class |\n```") == []


def test_code_tables_and_targets_of_links_are_no_prose():
    long = "word " * 40
    assert faults(f"```console\n{long}\n```\n| {long} |\n# {long}\n![{long}](x.png)\n") == []
    assert faults(f"See [this]({'a' * 10} {long}).") == []


def test_what_a_program_has_written_is_no_prose():
    assert faults(f"<!-- searching -->\n{'word ' * 40}\n<!-- end -->\n") == []
