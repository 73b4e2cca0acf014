"""Four questions on batches and overload."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "A call of the model takes 100 µs, and 10 µs more per row. Calls of 10 rows, next to calls of 1: how many times as many "
        "requests of one row are answered per second?",
        right="Five and a half times.",
        because="Ten alone take 10 × 110 = 1,100 µs. Ten together take 100 + 10 × 10 = 200 µs.",
        wrong={
            "Ten times.": "Only the fixed part of a call is shared. Each row still costs its 10 µs.",
            "As many: the rows are the same.": "They are, but the fixed part is paid once in place of ten times.",
            "Fewer: each waits for nine others.": "Waiting makes one answer later. It does not keep the server busy.",
        },
    ),
    Question(
        "A request spends 20 ms inside a server, waiting included, and 500 requests come per second. By Little's law, how many "
        "are inside on average?",
        right="Ten.",
        because="The mean number inside is the rate times the mean time: 500 per second × 0.02 seconds.",
        wrong={
            "One: a server works on one at a time.": "Those who wait are inside, too.",
            "25.": "That is 500 divided by 20. The law multiplies the two, with the time in seconds.",
            "It depends on how the requests come.": "How they come changes the mean time. With that known, the law holds.",
        },
    ),
    Question(
        "Twice as many requests come as a server can answer, and the queue has no bound. What do clients see after an hour?",
        right="Each newcomer waits about an hour, and gives up before its answer comes.",
        because="Half of what came still waits, and that is an hour of work. The server does it for clients who are gone.",
        wrong={
            "Half of them are answered as fast as ever.": "This happens with a bound. Without one all join the same queue.",
            "Each waits twice as long as usual.": "The queue grows as long as the overload lasts, and so does the wait.",
            "The server crashes.": "It may, when memory is full. Long before that its answers are useless.",
        },
    ),
    Question(
        "A client asks, waits for the answer, and asks again. It is alone. What does a wait of 1 ms for a batch do to it?",
        right="Each answer comes 1 ms later, and nothing gets better.",
        because="Nobody else comes, so the batch is never shared. A lone client pays for a wait that helps only a crowd.",
        wrong={
            "Nothing: the server sees that it is alone.": "The rule knows who waits, and not who will come.",
            "Its requests become one batch.": "It asks only after an answer. There is never a second request to join.",
            "It is faster, since calls are larger.": "Its calls have one row, as before.",
        },
    ),
)
