"""The check of how documents read can fail, and the README passes it."""

from pathlib import Path

from tests.prose import faults

README = Path(__file__).parent.parent / "README.md"


def test_the_readme_reads_well():
    assert faults(README.read_text(encoding="utf-8")) == []


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


def test_code_tables_and_targets_of_links_are_no_prose():
    long = "word " * 40
    assert faults(f"```console\n{long}\n```\n| {long} |\n# {long}\n![{long}](x.png)\n") == []
    assert faults(f"See [this]({'a' * 10} {long}).") == []
