"""Four questions on fleets: who is in an arm, who takes a request, and how many instances a load needs."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "Two experiments split users in halves by hash(user) alone, without their names. What is wrong?",
        right="The new half of one is the new half of the other, so their effects can't be told apart.",
        because="Both hash the same text. The experiment's name belongs into it, as a salt: then the halves cross.",
        wrong={
            "The halves are not of the same size.": "A good hash gives each half its percent, with a salt and without.",
            "A user changes the arm from visit to visit.": "The user's id stays, so the hash stays.",
            "Nothing, as long as the experiments run on different pages.": "A user who is in both new arms feels both.",
        },
    ),
    Question(
        "An instance is to be replaced. 5 requests are inside. What happens first?",
        right="It gets no new requests; the 5 are answered, then its process is told to stop.",
        because="This is to drain. Whoever stops the process first breaks 5 connections without need.",
        wrong={
            "Its process is killed, and the 5 are tried once more elsewhere.": "This works, and doubles their latency. "
            "It is for crashes, which nobody plans.",
            "The other instances are replaced at the same moment, to have one version.": "Then nobody is ready.",
            "It goes on taking requests until it has 0 inside.": "Under load that moment never comes.",
        },
    ),
    Question(
        "A request is sent once more when its instance crashes. Why not a third time?",
        right="The request itself may be what ends instances.",
        because="Such a query of death, tried on and on, ends one process after the other. Two is a loss that a fleet survives.",
        wrong={
            "A third answer may differ.": "The first two gave none.",
            "Two instances never crash at once.": "They do: by a bad request, a bad version, a full machine.",
            "HTTP does not allow it.": "HTTP has no such rule.",
        },
    ),
    Question(
        "Two instances share a load, each busy for 60 % of the time. One crashes. What follows?",
        right="The other has 120 % to do: its queue grows until the first is back, or until requests are refused.",
        because="With one of two gone, the rest has twice as much. With one of ten gone, each of the others has 67 %.",
        wrong={
            "Its p99 doubles.": "Above 100 % no latency is stable. The queue grows for as long as the load stays.",
            "Nothing: that is why there are two.": "Two help if each is busy for less than half of the time.",
            "The front tries every request once more, so none is late.": "A second try is more work, not less.",
        },
    ),
)
