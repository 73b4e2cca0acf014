"""Four questions on the bytes of requests."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "A price of 19.99 goes as JSON text, and as float32 bytes. What must a server do with each?",
        right="The text is read digit by digit and converted. The four bytes are used as they are.",
        because="The bytes are what the model's input holds in memory. The text is a number only after arithmetic.",
        wrong={
            "The text is used as it is. The bytes are converted.": "It is the other way round: a model computes with float32.",
            "Both are converted, the bytes to a Python float.": "The tensor's bytes are those of the request, without Python.",
            "Both are copied into a string first.": "A parser can read digits where they are, and bytes need not even be read.",
        },
    ),
    Question(
        "A tensor of texts begins with the bytes 03 00 00 00. What stands in the next three bytes?",
        right="The first text.",
        because="Its length is 3, the lowest byte first. The next length stands right behind it.",
        wrong={
            "The lengths of three texts.": "Lengths don't stand together. Each text stands behind its own.",
            "The number of texts.": "The header's shape says how many there are.",
            "The first text and a zero byte.": "Nothing ends a text but its length.",
        },
    ),
    Question(
        "A parser has 10 bytes left and reads a length of 4,294,967,295. Which test refuses it on every machine?",
        right="length > size - at",
        because="size - at is what is left, 10. No sum is formed, so nothing can overflow.",
        wrong={
            "at + length > size, in 32 bits": "The sum wraps around to a small number, and the test lets it pass.",
            "data + length > data + size": "An address beyond the end of memory wraps around, too, and is not defined in C++.",
            "length < 0": "The length is a number without a sign: it is large, not negative.",
        },
    ),
    Question(
        "Requests have one row. You change from JSON to binary tensors. What do you gain?",
        right="Nothing: the request gets larger, and is not parsed sooner.",
        because="The header is JSON as well: it names each tensor, its shape and its size. Many rows make it small beside them.",
        wrong={
            "As much as with 64 rows.": "The header costs as much for one row as for 64, and here it is most of the request.",
            "The request gets 4 times smaller.": "It often gets larger: a name, a shape and a size per column for one value.",
            "The model runs faster.": "The model gets the same tensors. Only the parsing differs.",
        },
    ),
)
