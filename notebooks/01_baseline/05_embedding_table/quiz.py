"""The questions of 01_baseline/05_embedding_table."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "A batch reads row 7 three times. What does the optimizer get for row 7?",
        right="One gradient: the sum of the three",
        because="The loss is a sum over reads, so the gradient of a row is the sum over the reads of that row.",
        wrong={
            "Three gradients, which it applies one after the other": "Its slots would see three small gradients in place of one "
            "large one. Adagrad and Adam then take another step.",
            "The last of the three": "That is what NumPy's table[ids] -= gradients does. It loses two of the three.",
            "Their mean": "Then ten clicks on one item would teach its row no more than a single click.",
        },
    ),
    Question(
        "Why do items of one session end up with similar rows?",
        right="Each is pulled towards the rows of the same other items",
        because="A pair that followed each other moves closer. Items with the same partners are pulled to the same place.",
        wrong={
            "Their category is one of the model's inputs": "The model saw ids only. The category just judged the result.",
            "Their ids are close to each other": "An id is a name. Only equal or different means something.",
            "Their rows were similar before the training": "They began as random numbers: the map before training shows it.",
        },
    ),
    Question(
        "V = 10 million rows, D = 16, float32, Adam with two slots. How much memory does training need for this table?",
        right="About 1.9 GB",
        because="10,000,000 x 16 numbers x 4 bytes = 0.64 GB, once for the rows and once for each of the two slots.",
        wrong={
            "About 0.16 GB": "That counts the numbers. Each one has 4 bytes, and each one has two slots.",
            "About 0.64 GB": "That is enough to serve the table. Training keeps two slots per number as well.",
            "About 1.3 GB": "That is a table with one slot, as Adagrad has it. Adam keeps m and v.",
        },
    ),
    Question(
        "An id came once in one pass over the data. What does its row hold, trained as DIN is here?",
        right="Its random initial value, moved by one step",
        because="With this optimizer a row moves only in a step that reads it. So the row knows one example; the rest is noise.",
        wrong={
            "Zeros": "Rows begin at small random numbers, and only a step that reads a row changes it.",
            "The average of similar items' rows": "Nothing knows yet that they are similar: that would have to be learned.",
            "A vector as good as that of any other id": "The chart by number of looks says no: one look teaches little.",
        },
    ),
)
