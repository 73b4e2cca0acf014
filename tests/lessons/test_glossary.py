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
EXPLAINED = {name.lower() for term in glossary.TERMS for name in glossary.names(term)}
PROSE = {
    path: "\n".join(cell.source for cell in notebook.read(path).cells if cell.cell_type == "markdown")
    for path in sorted(places.notebooks().glob("*/solutions/*.ipynb"))
}


def unexplained(prose: str, explained: set[str]) -> list[str]:
    """The field's words in a text that no entry explains."""
    used = {word for word in WORDS if re.search(rf"\b{re.escape(word)}", prose, re.I)}
    return sorted(word for word in used if not any(name.startswith(word.lower()) for name in explained))


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.stem)
def test_the_fields_words_of_a_lesson_are_explained(path):
    assert unexplained(PROSE[path], EXPLAINED) == []


def test_a_word_without_an_entry_is_noticed():
    assert unexplained("A Bloom filter and a tombstone.", EXPLAINED - {"tombstone"}) == ["tombstone"]


@pytest.mark.parametrize("term", glossary.TERMS)
def test_an_entry_is_one_to_three_sentences(term):
    text = glossary.TERMS[term]
    assert text[0].isupper() or not text[0].isalpha() or term == "ReLU"
    assert text.endswith((".", ".)")) and 1 <= len(re.findall(r"[.)](?: |$)", text)) <= 4 and len(text) <= 200


def test_no_two_entries_have_one_name():
    names = [name.lower() for term in glossary.TERMS for name in glossary.names(term)]
    assert len(names) == len(set(names))
    assert len(re.findall(r"^### (.*)$", glossary.page(), re.M)) == len(glossary.TERMS)
