"""The questions of 01_baseline/00_start_here."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "Another program starts in the middle of a measurement. How does timing in pairs, A B, B A, A B, protect the ratio?",
        right="Both blocks of a pair meet the same state of the machine, so their ratio hardly changes.",
        because="A program that starts in the background slows down A and B alike. The ratio of the pair stays nearly the same.",
        wrong={
            "It leaves out the blocks that were disturbed.": "All pairs count. The median of their ratios is hardly moved by a "
            "single odd one.",
            "More calls are timed in this way.": "The number of calls is the same. What changes is which times are divided by "
            "which.",
        },
    ),
    Question(
        "A table says 2.4 times as fast, interval 1.9 to 2.8 (96 %). The goal was 2 times. What does the gate say?",
        right="Inconclusive: the interval holds ratios below 2 and ratios above 2.",
        because="Both are still possible. Measure with more pairs, or on a quieter machine.",
        wrong={
            "Yes, since the median is above 2.": "Half of the pairs lie below the median. A verdict needs the whole interval.",
            "No, since the low end is below 2.": "A no needs the high end below 2: then nothing speaks for a factor of 2.",
        },
    ),
    Question(
        "What does make_inputs(i) do?",
        right="It returns the arguments of call number i, other ones than for the call before.",
        because="So no variant can profit from a call before: its data would be in the cache, or its answer already known.",
        wrong={
            "It runs the variant i times and returns the times.": "The stopwatch runs the variants. make_inputs only makes what "
            "they are called with.",
            "It returns the same arguments for all calls, so that the calls are alike.": "Then all data would be in the cache "
            "after the first call. A real training step gets a new batch.",
        },
    ),
    Question(
        "`float* x` points to a matrix of n columns, stored row by row. What is `x + b * n`?",
        right="A pointer to the first number of row b.",
        because="Each row before it has n numbers. So (x + b * n)[c] is x[b * n + c], the number in row b and column c.",
        wrong={
            "The sum of x and b times n, for each number of the matrix.": "That is NumPy. In C++ adding to a pointer moves the "
            "address and touches no number.",
            "The number in row b and column n.": "A pointer is an address. Brackets read a number: x[b * n]. And columns end at "
            "n - 1.",
        },
    ),
)
