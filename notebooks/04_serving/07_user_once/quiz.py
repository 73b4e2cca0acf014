"""Four questions on requests whose candidates share a user."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "A request has 200 candidates and a history of 50 events. How often is k (Wk - Wd) needed?",
        right="50 times: once per event.",
        because="It depends on the event alone. All 200 candidates add the same 50 results.",
        wrong={
            "200 times: once per candidate.": "That is q (Wq + Wd). This term has no q in it.",
            "10,000 times: once per pair.": "That is what whole rows do. The results repeat 200 times.",
            "Once.": "Each of the 50 events has its own k.",
        },
    ),
    Question(
        "DIEN runs a GRU over the history, attention, then an AUGRU. What can be computed once per user?",
        right="The GRU, and the AUGRU's products of its inputs.",
        because="Both depend on the history alone. The AUGRU's states depend on attention, and so on the candidate.",
        wrong={
            "The GRU and the whole AUGRU.": "Attention scales the AUGRU's gates, and each candidate has its own attention.",
            "Nothing: both have a state.": "A state that starts at zero and reads the user's history is the user's.",
            "The attention's softmax.": "Its weights are of one candidate with each event.",
        },
    ),
    Question(
        "Why may a split first layer be less exact than the joined one?",
        right="q Wd and k Wd are rounded first. If they nearly cancel, the rounding is what remains.",
        because="The joined layer subtracts q - k before it multiplies, so nothing is lost there.",
        wrong={
            "It has more additions, and each of them loses a digit.": "It has fewer, and each loses a tiny part.",
            "TensorFlow uses other kernels for small matrices.": "They differ by rounding, which is far smaller.",
            "It is not: the two are equal.": "In real numbers they are. float32 has seven digits.",
        },
    ),
    Question(
        "Each request to your server has one candidate. What does computing the user once save?",
        right="Nothing: the user comes once already, and a graph that shares costs a little more.",
        because="There are no copies. Counting candidates and repeating sums still takes ops.",
        wrong={
            "The same share of the time as with 200.": "The gain comes from repeated work, which grows with the candidates.",
            "Half of the bytes.": "One row is as long as the user and the candidate apart.",
            "The history's products.": "With one candidate they are needed once in either form.",
        },
    ),
)
