"""The word of a text in native code is that of `ctrlab.schema.words`."""

import random
import struct
import subprocess

from compiled import program, sanitized, units

from ctrlab.schema.words import word

PROGRAM = """
#include <cstdint>
#include <cstdio>
#include <memory>

#include "words.h"

int main() {
  for (uint32_t size; std::fread(&size, sizeof size, 1, stdin) == 1;) {
    const std::unique_ptr<char[]> text(new char[size]);  // of its exact size
    if (std::fread(text.get(), 1, size, stdin) != size) return 1;
    ctrlab::Digits made;
    const std::string_view word = ctrlab::WordOf(std::string_view(text.get(), size), made);
    const auto length = static_cast<uint32_t>(word.size());
    std::fwrite(&length, sizeof length, 1, stdout);
    std::fwrite(word.data(), 1, length, stdout);
  }
}
"""
SIGNS, DIGITS = ("", "+", "-", " ", "\t -", "+-"), (0, 1, 1, 2, 3, 8, 17, 20, 60)
FRACTIONS = ("", ".", ".0", ".00", ".5", "..", ".99999999999999999", ".000000000000000000001", ".12345678")
EXPONENTS = ("", "", "e5", "E+03", "e-1", "e+", "e007", "E+99", "e100", "e-02", "e+0018")


def numeral(rng):
    digits = "".join(rng.choice("00123459") for _ in range(rng.choice(DIGITS)))
    return (
        rng.choice(SIGNS) + digits + rng.choice(FRACTIONS) + rng.choice(EXPONENTS) + rng.choice(("", "", " ", "\t", "\n", "\xa0"))
    )


def test_native_words_are_those_of_the_rule(tmp_path):
    (tmp_path / "words.cc").write_text(PROGRAM)
    built = program("words", units([tmp_path / "words.cc"]), ["-std=c++20", *sanitized("address,undefined")])
    rng = random.Random(1)
    texts = [numeral(rng) for _ in range(40_000)]
    texts += ["".join(rng.choice("0019.+-eE \tx\xa0") for _ in range(rng.randint(0, 9))) for _ in range(40_000)]
    given = b"".join(struct.pack("I", len(text.encode())) + text.encode() for text in texts)
    found, at = subprocess.run([built], input=given, capture_output=True, check=True).stdout, 0
    for text in texts:
        (size,) = struct.unpack_from("I", found, at)
        assert (text, found[at + 4 : at + 4 + size].decode()) == (text, word(text))
        at += 4 + size
    assert at == len(found)
    assert sum(word(text) != text for text in texts) > 5000
