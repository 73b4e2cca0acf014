"""Four questions on exports and the C interface."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "A layer is product, bias, ReLU, then BatchNorm. Into which weights can the BatchNorm be folded?",
        right="Into the kernel and the bias of the next layer.",
        because="Between the normalization and the next product nothing else happens, so two linear steps become one.",
        wrong={
            "Into the kernel and the bias of its own layer.": "The ReLU stands between them. With a scale below 0, it would cut "
            "off the other half.",
            "Into the next layer's bias alone.": "The shift goes there. The scale must change the kernel.",
            "Into none: its mean changes with each batch.": "It does in training. In a server the statistics are constants.",
        },
    ),
    Question(
        "Your fold raises on a kernel of 7 rows and 3 columns. On one of 6 and 6 it answers wrongly. What is the likely mistake?",
        right="The scale multiplies the columns of the kernel and not its rows.",
        because="Row i of the kernel meets input i. On a square kernel the wrong axis has a fitting length, so nothing raises.",
        wrong={
            "The epsilon is missing.": "Then nothing raises, and each result is slightly wrong.",
            "The shift goes through the scaled kernel.": "Then nothing raises, and the bias is wrong on each kernel.",
            "The kernel is in float64.": "Then nothing raises, whatever the shape is.",
        },
    ),
    Question(
        "Why does our export keep the weights beside the graph?",
        right="A graph file can't pass 2 GB, and a process needs only one copy of the weights.",
        because="Protobuf sets the limit of the file. Sessions that load the version share the numbers that were read once.",
        wrong={
            "So that training can go on from the file.": "Slots and statistics are not in it. Training goes on from a "
            "checkpoint.",
            "Because constants in a graph are slower to read.": "A constant lies in memory like any other number.",
            "So that clients can download them.": "Clients send requests and never see a weight.",
        },
    ),
    Question(
        "process returns CTRLAB_PROCESSOR_INVALID. What should the program do?",
        right="Hand the sentence in problem to the client, and go on with the next request.",
        because="The request is at fault, so the same bytes will be refused again. The processor is as good as before.",
        wrong={
            "Ask again until the code is 0.": "The same bytes get the same answer. Only UNAVAILABLE may pass with time.",
            "Release the handle and initialize again.": "The processor is not damaged, and loading a model takes long.",
            "Read response.data: it holds the sentence.": "A refusal leaves the response empty. The sentence is in problem.",
        },
    ),
)
