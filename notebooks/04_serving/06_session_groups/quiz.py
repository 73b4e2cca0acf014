"""Four questions on session groups."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "Four members share one session. How often are the model's weights in memory?",
        right="Once.",
        because="Members have threads of their own, and nothing else. The session's weights and tables are shared.",
        wrong={
            "Four times.": "That is what four sessions would cost, or four processes.",
            "Twice: one copy per pair of members.": "Members don't copy anything.",
            "Once per CPU.": "Memory is shared by all CPUs of a machine.",
        },
    ),
    Question(
        "A call raises, and the router does not count it down. What happens over a day?",
        right="That member looks busier and busier, and gets fewer calls, in the end none.",
        because="The count never falls again. Least in flight then avoids a member that is idle.",
        wrong={
            "Nothing: a call that raised is over.": "The call is over, its count is not.",
            "The member gets more calls than the others.": "It looks busy, so it gets fewer.",
            "All calls wait for the lock.": "The lock was left. Only the number is wrong.",
        },
    ),
    Question(
        "On two cores, a group answers about as many requests per second as one pool. Why?",
        right="Both keep two threads busy with the same work, and little is handed over.",
        because="A group saves handing parts from thread to thread. Between two threads there is little of it.",
        wrong={
            "The group's lock costs what it gains.": "A lock is taken twice per request, for less than a microsecond.",
            "The group copies the weights.": "Members share them.",
            "The pool has more threads.": "More threads than cores do no more work.",
        },
    ),
    Question(
        "A light model's p99 suffers beside a heavy model. Which policy protects it, and what does it cost?",
        right="By model: the light model has a member of its own, which idles when no light request is there.",
        because="No heavy request enters that member. Its CPU is lost to the heavy model.",
        wrong={
            "Least in flight, and it costs nothing.": "It balances. With heavy requests in all members, a light one still waits.",
            "Round robin, and it costs a lock.": "Every other light request meets the heavy ones.",
            "By model, and it costs nothing.": "The light model's CPU idles most of the time.",
        },
    ),
)
