"""Four questions on looking up all columns at once."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "Lookups and the optimizer took 40 % of a step. You make them ten times as fast. How much faster is the step?",
        right="Some 1.6 times: 1 / (0.6 + 0.04).",
        because="This is Amdahl's law. The other 60 % of the step take as long as before, so they set the limit of 1 / 0.6.",
        wrong={
            "10 times.": "Only the part that you changed is ten times as fast. The towers take as long as before.",
            "4 times: 40 % of 10.": "Shares of time do not multiply like this. Add up what each part takes afterwards.",
            "It depends on the number of ops that went.": "Their number says nothing. Their share of the time does.",
        },
    ),
    Question(
        "With which optimizer do unmerged gradients of equal ids give the same step as merged ones?",
        right="Plain SGD.",
        because="Its step is linear: the rate times g1, plus the rate times g2, is the rate times g1 + g2.",
        wrong={
            "Adagrad.": "It divides by the root of summed squares, and g1² + g2² is not (g1 + g2)².",
            "Adam.": "Its v has the same squares as Adagrad, so three gradients of 1 give 3 and not 9.",
            "All of them: a sum is a sum.": "The sum is the same, but Adagrad and Adam square before they add up.",
        },
    ),
    Question(
        "The bitmap has a bit for each row of the table. When does this merge lose?",
        right="When the table is huge and a batch has few ids.",
        because="All bits are cleared and counted, whether their ids came or not. Sorting works on the ids that came.",
        wrong={
            "When the batch has many equal ids.": "Equal ids set the same bit, so nothing gets slower.",
            "When the rows of the table are long.": "The bitmap does not depend on D. Any merge adds up the rows.",
            "When the ids come in random order.": "A bit is set at its place, in any order. A sort would notice.",
        },
    ),
    Question(
        "Why does each range of a table have one owner thread in the merge?",
        right="So that each sum adds its rows in the same order on any number of threads.",
        because="Floating-point sums depend on the order. With one owner, every run gives the same bits.",
        wrong={
            "Because a range fits into the cache of one core.": "It need not, and a cache would not change the sums.",
            "Because TensorFlow runs each op on one thread.": "An op may split its work over the pool, and this one does.",
            "Because atomic additions are not possible on floats.": "They are, but their order changes from run to run.",
        },
    ),
)
