"""Four questions on how many workers a model is worth."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "You double the workers of a ring all-reduce from 32 to 64. The gradient stays as large. What does each worker send?",
        right="Hardly more bytes, and twice as many messages.",
        because="A worker sends nearly twice the gradient, with 32 workers as with 64. But each chunk passes every worker twice, "
        "so the messages follow the number of workers.",
        wrong={
            "Twice the bytes, and as many messages.": "Chunks get half as large, and there are twice as many rounds.",
            "Half the bytes: chunks are half as large.": "It also sends twice as many of them.",
            "As much as before: a ring is free of scale.": "Its bytes nearly are. Its messages are not, and each has a latency.",
        },
    ),
    Question(
        "A step has 1 part fixed cost and 8 parts that workers divide. Talking costs nothing. How much faster can it get?",
        right="At most 9 times, with any number of workers.",
        because="With ever more workers the 8 parts vanish, and 1 of 9 remains. This is Amdahl's law.",
        wrong={
            "8 times, with 8 workers.": "With 8 workers, 1 + 8 / 8 = 2 parts remain of 9: 4.5 times.",
            "As many times as there are workers.": "Only if all of the step were divided.",
            "Not at all: the fixed cost stays.": "The fixed cost stays, and the other 8 parts do not.",
        },
    ),
    Question(
        "Four times the examples per step. What becomes of the distinct ids that a worker asks for?",
        right="They grow, but less than four times.",
        because="Frequent ids are in the batch already. Only rarer ones are new, so the exchange per example gets cheaper.",
        wrong={
            "They grow four times.": "Only if no id ever came twice in a batch.",
            "They stay: all ids are there already.": "A batch holds a small part of all ids, so new ones keep coming.",
            "They get fewer per step.": "More examples never need fewer ids; per example they do.",
        },
    ),
    Question(
        "In your simulation, eight GPUs beat four as soon as launches and copies are free. What do you try first on real ones?",
        right="Fewer launches and a loop less: compile the step, and give each GPU its own process.",
        because="The all-reduce alone did not turn it. What each GPU added was work for one host, and that is where the time is.",
        wrong={
            "A faster link between the GPUs.": "The all-reduce was a small part here. A faster link shrinks that part.",
            "Sixteen GPUs.": "They would add still more work for the same host.",
            "A smaller batch.": "Then compute shrinks, and the host's part is an even larger share.",
        },
    ),
)
