"""The glossary: every field's word that a lesson uses is explained, once, in words that are explained themselves."""

import re

import pytest

from ctrlab.lessons import glossary, notebook, places

# The words that a learner would search for: see the project's rules of prose.
FIELD = """admission|arithmetic intensity|AUC|AUGRU|BatchNorm|bf16|Bloom filter|cache line|calibration|checkpoint|checksum|CRC|
click-through rate|compaction|compute-bound|delta|dictionary encoding|embedding|eviction|factorization machine|false sharing|FMA|
fsync|GAUC|gather|GEMM|GRU|hash collision|hit rate|impression|LFU|load factor|logit|loop interchange|LRU|matrix multiplication|
memory-bound|mixed precision|multi-hot|one-hot|overfitting|p99|padding|Parquet|pooling|prefetch|ragged tensor|ReLU|roofline|
row group|sanitizer|scatter|segment sum|SIMD|tail latency|tiling|tombstone|tower|transpose|
vectorization|warm-up|write amplification|Zipf"""
WORDS = [word.strip() for word in FIELD.split("|")]
EXPLAINED = {name.lower() for term in glossary.terms() for name in glossary.names(term)}
PROSE = {
    path: "\n".join(cell.source for cell in notebook.read(path).cells if cell.cell_type == "markdown")
    for path in sorted(places.notebooks().glob("*/*/lesson.ipynb"))
}


def unexplained(prose: str, explained: set[str]) -> list[str]:
    """The field's words in a text that no entry explains."""
    used = {word for word in WORDS if re.search(rf"\b{re.escape(word)}", prose, re.I)}
    return sorted(word for word in used if not any(name.startswith(word.lower()) for name in explained))


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.parent.name)
def test_the_fields_words_of_a_lesson_are_explained(path):
    assert unexplained(PROSE[path], EXPLAINED) == []


def test_a_word_without_an_entry_is_noticed():
    assert unexplained("A Bloom filter and a tombstone.", EXPLAINED - {"tombstone"}) == ["tombstone"]


@pytest.mark.parametrize("term", glossary.terms())
def test_an_entry_is_one_to_three_sentences(term):
    text = glossary.terms()[term]
    assert text[0].isupper() or not text[0].isalpha() or term == "ReLU"
    assert text.endswith((".", ".)")) and 1 <= len(re.findall(r"[.)](?: |$)", text)) <= 4 and len(text) <= 200


def test_no_two_entries_have_one_name():
    names = [name.lower() for term in glossary.terms() for name in glossary.names(term)]
    assert len(names) == len(set(names))
    assert len(re.findall(r"^### (.*)$", glossary.page(), re.M)) == len(glossary.terms())


def test_a_terms_first_use_is_a_link_and_only_prose_is_touched():
    links = glossary.Links()
    text = "# A GRU\n\nBatches feed a GRU, `GRU` and [a GRU](x) and <b title='GRU'>. A gradient; gru, upbatch."
    first, second = links.linked(text), links.linked("A batch and a Bloom filter.")
    assert first == text.replace("feed a GRU,", "feed a [GRU](../glossary.md#GRU),").replace(
        "gradient", "[gradient](../glossary.md#gradient)"
    )
    assert second == "A [batch](../glossary.md#batch) and a [Bloom filter](../glossary.md#Bloom-filter)."


def test_another_name_leads_to_its_entry():
    assert glossary.Links("g").linked("SIMD and blocking") == "[SIMD](g#vectorization) and [blocking](g#tiling)"


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.parent.name)
def test_every_link_of_a_lesson_has_its_entry(path):
    cells = notebook.learner(notebook.read(path)).cells
    found = re.findall(r"\]\(\.\./glossary\.md#([^)]+)\)", "\n".join(cell.source for cell in cells))
    headings = {line[4:].replace(" ", "-") for line in glossary.page().splitlines() if line.startswith("### ")}
    assert found and len(found) == len(set(found)) and set(found) <= headings
