"""The checks of the lesson on requests against right answers and every kind of wrong one, and what the lesson shows."""

import json
import struct

import numpy as np
import pytest
from ctrlab.lessons.topics.requests import checks
from ctrlab.lessons.topics.requests.request_bytes import Texts, copying, python_texts, stage_chart, stages
from solved import solved
from wrong_answers import judge, require_told

from ctrlab.errors import CtrlabError
from ctrlab.lessons import check, notebook, places
from ctrlab.lessons.check import CheckFailed, Unanswered
from ctrlab.lessons.cpp_cell import Source
from ctrlab.serving.processor import Reply

LESSON = "04_serving/02_requests"
pack, texts = solved(LESSON, 1), solved(LESSON, 2)
KINDS = {"int64": "INT64", "float32": "FP32"}


def prefixed(text: bytes) -> bytes:
    return len(text).to_bytes(4, "little") + text


def changed_pack(columns, *, text=prefixed, block=np.ndarray.tobytes, between=b"", entry=dict, kinds=KINDS, order=list):
    """A packer of which one thing is another."""
    inputs, tail = [], []
    for name, values in columns.items():
        array = isinstance(values, np.ndarray)
        data = block(values) if array else b"".join(map(text, values))
        kind = kinds[values.dtype.name] if array else "BYTES"
        size = {"binary_data_size": len(data)}
        inputs.append(entry({"name": name, "shape": [len(values)], "datatype": kind, "parameters": size}))
        tail.append(data)
    return json.dumps({"inputs": inputs}).encode(), between.join(order(tail))


def variant(name, **options):
    def answer(columns):
        return changed_pack(columns, **options)

    answer.__name__ = name
    return answer


def one_by_one(columns):
    return changed_pack(columns, block=lambda v: b"".join(struct.pack("<q" if v.dtype == np.int64 else "<f", n) for n in v))


def by_tolist(columns):
    return changed_pack(columns, block=lambda v: np.array(v.tolist(), v.dtype).tobytes())


def skips_empty(columns):
    return pack({name: values for name, values in columns.items() if len(values)})


def names_as_in_python(columns):
    header, tail = pack(columns)
    return str(json.loads(header)).encode(), tail


def as_a_string(columns):
    header, tail = pack(columns)
    return header.decode(), tail


def blocks_in_a_list(columns):
    header, tail = pack(columns)
    return header, [tail]


def together(columns):
    return b"".join(pack(columns))


def a_list_alone(columns):
    header, tail = pack(columns)
    return json.dumps(json.loads(header)["inputs"]).encode(), tail


WRONG = {
    one_by_one: "as a whole",
    by_tolist: "as a whole",
    skips_empty: "an entry per column",
    names_as_in_python: "is JSON",
    as_a_string: "are bytes",
    blocks_in_a_list: "are bytes",
    together: "returns header, tail",
    a_list_alone: "an entry per column",
    variant("highest_byte_first", text=lambda t: len(t).to_bytes(4, "big") + t): "without a gap",
    variant("two_bytes_of_length", text=lambda t: len(t).to_bytes(4, "little")[:2] + t): "An entry",
    variant("a_length_of_a_byte", text=lambda t: prefixed(t)[:1] + b"\0\0\0" + t): "without a gap",
    variant("a_zero_behind", text=lambda t: prefixed(t) + b"\0"): "An entry",
    variant("characters", text=lambda t: len(t.decode(errors="ignore")).to_bytes(4, "little") + t): "without a gap",
    variant("no_lengths", text=bytes): "An entry",
    variant("highest_first_numbers", block=lambda v: v.byteswap().tobytes()): "without a gap",
    variant("in_float64", block=lambda v: v.astype(v.dtype.str.replace("f4", "f8")).tobytes()): "An entry",
    variant("strips", text=lambda t: prefixed(t.strip())): "An entry",
    variant("a_gap", between=b"\0"): "without a gap",
    variant("from_the_end", order=lambda tail: tail[::-1]): "without a gap",
    variant("another_type", kinds={"int64": "INT32", "float32": "FP32"}): "An entry",
    variant("bytes_as_shape", entry=lambda e: e | {"shape": [e["parameters"]["binary_data_size"]]}): "An entry",
    variant("a_number_as_shape", entry=lambda e: e | {"shape": e["shape"][0]}): "An entry",
    variant("no_sizes", entry=lambda e: {key: e[key] for key in ("name", "shape", "datatype")}): "An entry",
}
test_right, test_wrong = judge(LESSON, {1: (pack, WRONG)})


def test_the_definition_passes():
    check.run(LESSON, 1, checks.pack)


def test_the_solution_passes():
    check.run(LESSON, 2, Source("texts", texts), 1)


def test_the_stub_is_not_judged():
    stubs = notebook.solutions(notebook.learner(notebook.read(places.lesson_path(LESSON))))
    with pytest.raises(Unanswered, match="Exercise 2: write this"):
        check.run(LESSON, 2, Source("texts", stubs[2].partition("\n")[2]))


ROOM, LEFT, TEXT = "count == most || ", "size - at < sizeof length", "if (length > size - at) return -1;"
READ = "std::memcpy(&length, data + at, sizeof length);"
FOUND = "found[count] = {data + at, length};"
LOOP, BEGIN, END = "for (size_t at = 0; at < size; ++count) {", "int64_t texts(", "return static_cast<int64_t>(count);"
SCRATCH = "static char scratch[1 << 25]; "
A_CALL_PER_TEXT = """static int64_t rest(const char* data, size_t left, Text* found, size_t most) {
  if (left == 0) return 0;
  uint32_t length;
  if (most == 0 || left < 4) return -1;
  std::memcpy(&length, data, 4);
  if (length > left - 4) return -1;
  found[0] = {data + 4, length};
  const int64_t others = rest(data + 4 + length, left - 4 - length, found + 1, most - 1);
  return others < 0 ? -1 : others + 1;
}
"""
WRONG_PARSERS = {
    "no_room_asked": (ROOM, "", "reads and writes only|where each text is"),
    "room_for_one_more": (ROOM, "count > most || ", "reads and writes only|where each text is"),
    "no_length_asked": (f"{ROOM}{LEFT}", "count == most", "reads and writes only|where each text is"),
    "three_bytes_are_enough": (LEFT, "size - at < 3", "reads and writes only"),
    "five_bytes_are_needed": (LEFT, "size - at < 5", "where each text is"),
    "believes_lengths": (TEXT, "", "reads and writes only|where each text is"),
    "a_byte_too_many": (TEXT, "if (length > size - at + 1) return -1;", "reads and writes only|where each text is"),
    "a_byte_too_few": (TEXT, "if (length >= size - at) return -1;", "where each text is"),
    "sum_of_32_bits": (TEXT, "if (static_cast<uint32_t>(at + length) > size) return -1;", "reads|where each text is"),
    "signed_length": (TEXT, "if (static_cast<int32_t>(length) > static_cast<int64_t>(size - at)) return -1;", "reads|where"),
    "cast_at_any_address": (READ, "length = *reinterpret_cast<const uint32_t*>(data + at);", "reads and writes only"),
    "signed_bytes": (READ, "length = data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24;", "reads|where"),
    "highest_byte_first": (READ, READ + " length = __builtin_bswap32(length);", "where each text is"),
    "one_byte_of_length": (READ, "length = static_cast<unsigned char>(data[at]);", "where each text is"),
    "with_its_length": (FOUND, "found[count] = {data + at - 4, length + 4};", "where each text is"),
    "copies": (FOUND, "found[count] = {(new std::string(data + at, length))->data(), length};", "Nothing is copied"),
    "copies_into_its_own": (FOUND, "char* mine = new char[length + 1]; std::memcpy(mine, data + at, length); "
                            "found[count] = {mine, length};", "Nothing is copied"),
    "counts_and_finds_nothing": (FOUND, "found[count] = {nullptr, 0};", "where each text is"),
    "empty_texts_end_it": (FOUND, f"if (length == 0) break; {FOUND}", "where each text is"),
    "skips_empty_texts": (FOUND, f"if (length == 0) {{ --count; continue; }} {FOUND}", "where each text is"),
    "what_it_has_so_far": (TEXT, "if (length > size - at) return static_cast<int64_t>(count);", "where each text is"),
    "hangs_at_an_empty_text": (FOUND, f"while (length == 0) {{ asm volatile(\"\"); }} {FOUND}", "The parser ends"),
    "writes_to_the_request": (FOUND, f"const_cast<char*>(data)[-2] = 0; {FOUND}", "reads and writes only"),
    "wraps_around_to_the_start": (LOOP, LOOP.replace("size_t", "uint32_t"), TEXT, "if (at + length > size) return -1;",
                                  "where each text is"),
    "a_limit_of_its_own": (TEXT, f"if (length > 100000) return -1; {TEXT}", "where each text is"),
    "three_bytes_of_length": (READ, f"{READ} length &= 0xffffff;", "where each text is"),
    "asks_for_a_copy_and_gives_it_back": (FOUND, "char* mine = new char[length + 1]; mine[length] = 0; delete[] mine; " + FOUND,
                                          "Nothing is copied"),
    "malloc_and_free": (FOUND, f"void* volatile mine = malloc(length + 1); free(mine); {FOUND}", "Nothing is copied"),
    "malloc_of_the_whole": (LOOP, f"void* volatile mine = malloc(size + 1); free(mine); {LOOP}", "Nothing is copied"),
    "realloc_of_its_own": (LOOP, f"static void* mine; mine = realloc(mine, size + 1); {LOOP}", "Nothing is copied"),
    "calloc": (LOOP, f"void* volatile mine = calloc(1, 64); free(mine); {LOOP}", "Nothing is copied"),
    "a_static_buffer": (FOUND, f"{SCRATCH} std::memcpy(scratch, data + at, length); {FOUND}", "Nothing is copied"),
    "the_whole_on_the_stack": (LOOP, f"const size_t part = size < 100000 ? size : 0; char* volatile mine = "
                                     f"(char*)__builtin_alloca(part + 1); std::memcpy(mine, data, part); {LOOP}",
                               "Nothing is copied"),
    "ends_texts_with_a_zero": (END, "for (size_t n = 0; n + 1 < count; ++n) const_cast<char*>(found[n].data)[found[n].size] = 0;"
                                    + END, "as it came"),
    "goes_on_where_it_was": (LOOP, f"static size_t at = 0; {LOOP.replace('size_t at = 0', '')}", "keeps nothing"),
    "a_call_per_text": (BEGIN, A_CALL_PER_TEXT + BEGIN, LOOP, f"if (size) return rest(data, size, found, most); {LOOP}",
                        "reads and writes only"),
    "writes_and_goes": (LOOP, f"std::exit(0); {LOOP}", "returns"),
    "returns_nothing": (END, "", "reads and writes only"),
    "no_cpp": (FOUND, "this is no C++;", "The cell compiles"),
}  # fmt: skip


def changed(*changes: str) -> Source:
    """The solution with each old piece replaced by the new one behind it."""
    text = texts
    for old, new in zip(changes[::2], changes[1::2]):
        assert text.count(old) == 1
        text = text.replace(old, new)
    return Source("texts", "#include <cstdlib>\n#include <string>\n" + text)


@pytest.mark.parametrize("name", WRONG_PARSERS)
def test_wrong_parsers_are_refused(name):
    *changes, says = WRONG_PARSERS[name]
    source = changed(*changes)
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 2, source, 1)
    require_told(refused.value, f"(?s){says}")


HINTS = {
    "cast_at_any_address": "memcpy",
    "no_room_asked": "count == most",
    "returns_nothing": "return how many",
    "a_call_per_text": "fills the stack",
    "a_static_buffer": "nothing has to read the text",
    "wraps_around_to_the_start": "may wrap around",
    "a_limit_of_its_own": "a long one",
    "empty_texts_end_it": "begins behind the four bytes",
}


@pytest.mark.parametrize("name", HINTS)
def test_a_hint_is_for_what_went_wrong(name):
    *changes, _ = WRONG_PARSERS[name]
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 2, changed(*changes), 1)
    assert HINTS[name] in refused.value.next_step


def test_a_look_at_one_number_is_no_loop():
    def by_the_first(columns):
        kinds = {name: v if not len(v) or isinstance(v[0], bytes) else np.asarray(v) for name, v in columns.items()}
        return pack(kinds)

    check.run(LESSON, 1, by_the_first, 1)


@pytest.mark.parametrize(
    "answer, says",
    [
        (variant("in_another_order", block=lambda v: v.byteswap().tobytes()), "of 'hour': values.tobytes() as they are"),
        (variant("characters", text=lambda t: len(t.decode(errors="ignore")).to_bytes(4, "little") + t), "its length in bytes"),
        (variant("a_gap", between=b"\0"), "nothing stands between"),
        (lambda columns: pack(dict(sorted(columns.items()))), "columns.items"),
    ],
)
def test_a_hint_names_the_block(answer, says):
    with pytest.raises(CheckFailed) as refused:
        check.run(LESSON, 1, answer, 1)
    assert says in refused.value.next_step


def test_a_parser_in_this_process_finds_what_python_finds():
    parser, words = Texts(Source("texts", texts), most=3), [b"B1", b"", "Größe".encode()]
    data = b"".join(map(prefixed, words))
    assert parser.texts(data) == python_texts(data) == words and parser(data) == 3
    assert parser(data + b"\0") == parser(data + prefixed(b"")) == -1
    assert copying(3).texts(data) == words and copying(3)(data[:-1]) == copying(2)(data) == -1
    with pytest.raises(CtrlabError, match="the parser says -1"):
        parser.texts(data[:-1])


def test_stages_are_medians_of_turns():
    asked = []

    class Processor:
        def process(self, body, format):
            asked.append(body)
            return Reply(b"", 1, 0, -1, (len(asked), 10.0, len(body)))

    found = stages(Processor(), {"a": (b"1", "json"), "b": (b"22", "json")}, 3)
    assert asked == [b"1", b"22"] * 3
    assert found == {"a": {"parse": 3, "run": 10, "write": 1}, "b": {"parse": 4, "run": 10, "write": 2}}
    chart = stage_chart(found)
    assert chart.data[0].x == ("a<br>14,000,000 µs", "b<br>16,000,000 µs")
    assert chart.data[0].text == ("3,000,000", "4,000,000")
    assert [(bar.name, list(bar.y)) for bar in chart.data] == [("parse", [3e6, 4e6]), ("run", [1e7, 1e7]), ("write", [1e6, 2e6])]
