"""Four questions on rows in fewer bits."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "A row has 32 numbers. How many bytes does it take in int8 with a scale in float32, and how many in float32?",
        right="36, and 128.",
        because="A byte per number and four for the scale, against four bytes per number.",
        wrong={
            "32, and 128.": "The row's scale needs four bytes, too. Without it nobody knows how large a step is.",
            "64, and 128.": "That is bfloat16: two bytes per number, and no scale.",
            "36, and 256.": "A float32 has four bytes. 256 is what double precision takes.",
        },
    ),
    Question(
        "One id's row holds a number 1,000 times as large as all others in the table. Which format serves the other rows worst?",
        right="int8 with one scale per table.",
        because="Its step is the outlier divided by 127, so the other rows become zeros. Other formats never look at that row.",
        wrong={
            "int8 with one scale per row.": "The outlier's own row suffers, and no other.",
            "bfloat16.": "Each number has its own exponent, so its neighbours don't matter.",
            "They are all the same.": "It depends on who shares a scale with the outlier.",
        },
    ),
    Question(
        "You make bfloat16 by cutting the lower 16 bits off. What is wrong with it, compared with rounding?",
        right="Each number gets smaller in size, so the errors add up in one direction.",
        because="A cut is always towards zero: about 0.3 % of the size. Rounded errors have both signs and cancel in sums.",
        wrong={
            "Nothing: the lower bits are noise.": "They are, but the cut has the same sign for each number of a kind.",
            "Large numbers become infinite.": "A cut never makes a number larger. Rounding up can, at the very largest.",
            "The sign is lost.": "The sign is the highest bit, and it stays.",
        },
    ),
    Question(
        "Rows of 16 numbers in float32 lie on one cache line each. What does int8 change for a random lookup?",
        right="It still reads one line or two, but three times as many rows fit into the cache.",
        because="20 bytes are less than a line, but a line is read as a whole, and some rows lie across two.",
        wrong={
            "It reads a third of a line.": "Memory and caches exchange whole lines of 64 bytes.",
            "It reads no memory at all.": "Only if the row is in the cache already, which int8 makes likelier.",
            "It reads three lines, one for the scale.": "The scale lies in front of the row's numbers.",
        },
    ),
)
