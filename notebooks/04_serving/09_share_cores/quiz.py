"""Four questions on sharing cores between models."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "Ten machines of one core, each with its own queue, are busy for 80 % of the time. You join them: one queue, ten cores, "
        "the same requests. What becomes of the mean wait?",
        right="It falls to a small part: a request waits only while all ten cores are busy.",
        because="With one core, a request waits whenever that core is busy: 80 % of the time. With ten, all are busy at once far "
        "less often, and the first of ten gets free soon.",
        wrong={
            "It stays the same: the utilization is the same.": "The utilization stays at 80 %. But no core idles any more while "
            "another one has a queue.",
            "It falls to a tenth.": "It falls by more. A request waits less often, and then for less time.",
            "It grows: ten times as many requests stand in one queue.": "Ten cores also empty that queue.",
        },
    ),
    Question(
        "A shared pool carries the most load in your simulation. Why might you still dedicate cores to the main model?",
        right="A variant that turns slow then delays the other variants, and not the main model.",
        because="In a shared pool everybody stands in one queue. Dedicated cores are a wall: they protect whoever is behind it.",
        wrong={
            "Dedicated cores always carry more load.": "They carry less than one pool, if all goes as planned: cores idle that "
            "others could use.",
            "A model on its own cores needs less CPU per request.": "Warm caches help a little, but they are not the reason.",
            "Otherwise the main model's requests come last.": "One queue is first come, first served.",
        },
    ),
    Question(
        "The others are busy with exactly 4 cores' work. Why must they get more than 4 cores?",
        right="At a utilization of 1 the queue grows without end.",
        because="Requests come at random. If a core idles for a moment, that time is lost. At full load it is never made up.",
        wrong={
            "4 cores are enough: they do the work of 4 cores.": "Only if requests come exactly when a core gets free.",
            "Because a heap needs one more place.": "The heap is a matter of the simulation, not of the machine.",
            "Because the main model may borrow them.": "Dedicated cores are not lent in either direction.",
        },
    ),
    Question(
        "Your simulation of 128 cores rests on service times from one core of a small machine. What does it not know?",
        right="How much 128 cores slow each other down: shared caches, memory bandwidth, clock.",
        because="Service times on a full large machine may be longer. They depend on what the neighbours do. Measure there "
        "before you promise anything.",
        wrong={
            "How requests queue.": "That is what it computes exactly, for the arrivals that it is given.",
            "The models' rows per request.": "They are an input, drawn as you said.",
            "Nothing: service times are service times.": "They depend on what other cores do at the same time.",
        },
    ),
)
