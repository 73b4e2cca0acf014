"""The checks of the lesson on requests against right answers and every kind of wrong one, and what the lesson shows."""

import json
import struct

import numpy as np
import pytest
from wrong_answers import judge

from ctrlab.errors import CtrlabError
from ctrlab.lessons import check, notebook, places
from ctrlab.lessons.check import CheckFailed, Unanswered
from ctrlab.lessons.checks import requests as checks
from ctrlab.lessons.cpp_cell import Source
from ctrlab.lessons.request_bytes import Texts, python_texts, stage_chart, stages
from ctrlab.serving.processor import Reply

LESSON = "04_serving/02_requests"
KINDS = {"int64": "INT64", "float32": "FP32"}


def prefixed(text: bytes) -> bytes:
    return len(text).to_bytes(4, "little") + text


def pack(columns, *, text=prefixed, block=np.ndarray.tobytes, between=b"", entry=dict, kinds=KINDS, order=list):
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
        return pack(columns, **options)

    answer.__name__ = name
    return answer


def one_by_one(columns):
    return pack(columns, block=lambda v: b"".join(struct.pack("<q" if v.dtype == np.int64 else "<f", n) for n in v))


def by_tolist(columns):
    return pack(columns, block=lambda v: np.array(v.tolist(), v.dtype).tobytes())


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


def cell(folder: str = "solutions/") -> str:
    nb = notebook.read(places.notebooks() / f"04_serving/{folder}02_requests.ipynb")
    return notebook.solutions(nb)[2].partition("\n")[2]


def test_the_solution_passes():
    check.run(LESSON, 2, Source("texts", cell()), 1)


def test_the_stub_is_not_judged():
    with pytest.raises(Unanswered, match="Exercise 2: write this"):
        check.run(LESSON, 2, Source("texts", cell("")))


ROOM, LEFT, TEXT = "count == most || ", "size - at < sizeof length", "if (length > size - at) return -1;"
READ = "std::memcpy(&length, data + at, sizeof length);"
FOUND = "found[count] = {data + at, length};"
WRONG_PARSERS = {
    "no_room_asked": (ROOM, "", "reads only|where each text is"),
    "room_for_one_more": (ROOM, "count > most || ", "reads only|where each text is"),
    "no_length_asked": (f"{ROOM}{LEFT}", "count == most", "reads only|where each text is"),
    "three_bytes_are_enough": (LEFT, "size - at < 3", "reads only"),
    "five_bytes_are_needed": (LEFT, "size - at < 5", "where each text is"),
    "believes_lengths": (TEXT, "", "reads only|where each text is"),
    "a_byte_too_many": (TEXT, "if (length > size - at + 1) return -1;", "reads only|where each text is"),
    "a_byte_too_few": (TEXT, "if (length >= size - at) return -1;", "where each text is"),
    "sum_of_32_bits": (TEXT, "if (static_cast<uint32_t>(at + length) > size) return -1;", "reads only|where each text is"),
    "signed_length": (TEXT, "if (static_cast<int32_t>(length) > static_cast<int64_t>(size - at)) return -1;", "reads|where"),
    "cast_at_any_address": (READ, "length = *reinterpret_cast<const uint32_t*>(data + at);", "reads only"),
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
    "hangs_at_an_empty_text": (FOUND, f"while (length == 0) {{ asm volatile(\"\"); }} {FOUND}", "and ends"),
    "writes_to_the_request": (FOUND, f"const_cast<char*>(data)[-2] = 0; {FOUND}", "reads only"),
    "no_cpp": (FOUND, "this is no C++;", "The cell compiles"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG_PARSERS)
def test_wrong_parsers_are_refused(name):
    old, new, says = WRONG_PARSERS[name]
    assert cell().count(old) == 1
    source = Source("texts", "#include <string>\n" + cell().replace(old, new))
    with pytest.raises(CheckFailed, match=f"(?s){says}") as refused:
        check.run(LESSON, 2, source, 1)
    assert refused.value.rule.endswith(".") and refused.value.next_step


def test_a_parser_in_this_process_finds_what_python_finds():
    parser, words = Texts(Source("texts", cell()), most=3), [b"B1", b"", "Größe".encode()]
    data = b"".join(map(prefixed, words))
    assert parser.texts(data) == python_texts(data) == words and parser(data) == 3
    assert parser(data + b"\0") == parser(data + prefixed(b"")) == -1
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
    assert [(bar.name, list(bar.y)) for bar in chart.data] == [("parse", [3e6, 4e6]), ("run", [1e7, 1e7]), ("write", [1e6, 2e6])]
