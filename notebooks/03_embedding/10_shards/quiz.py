"""Four questions on tables that are split over workers."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "One shop is in every second example. Its row is with worker 3. What does this cost worker 3 in a step?",
        right="Little: each worker asks for the row once, however many of its examples have the shop.",
        because="Only distinct keys travel. A key that all eight workers need is asked for eight times in a step, not 256 times.",
        wrong={
            "Worker 3 gets half of all requests.": "This would be so if each id travelled.",
            "Nothing: popular rows are on all workers.": "A row has one owner. Copies would have to be kept equal.",
            "The hash moves popular keys to idle workers.": "A hash knows nothing of popularity.",
        },
    ),
    Question(
        "Two workers send gradients 3 and 1 for the same row. Adagrad adds the gradient's square to a slot. What must it add?",
        right="16: the square of the sum. The row takes one step.",
        because="One process would have added the two gradients first: 3 + 1 = 4. The slot gets 4 times 4.",
        wrong={
            "10: the sum of the squares.": "These are two steps. The slot would differ from that of one process.",
            "4: the square of their mean.": "Each worker's loss is divided by the whole batch already, so gradients are added.",
            "1: the last one counts.": "This is what `sums[place] += rows` does in NumPy: of equal places it keeps one.",
        },
    ),
    Question(
        "All ids of a column are multiples of 8. You have four workers. What does the owner rule `id mod 4` do?",
        right="Worker 0 has all rows, and the others have none.",
        because="A multiple of 8 leaves no rest when it is divided by 4. A hash of the id mixes its bits first.",
        wrong={
            "Each worker has a quarter of the rows.": "Only if the ids' rests are spread evenly. Here all rests are 0.",
            "Two workers have half of the rows each.": "That happens with multiples of 2: their rests are 0 and 2.",
            "The rows are spread, but their order is lost.": "Order is no matter. All rows are with worker 0.",
        },
    ),
    Question(
        "A table has 7 rows, one per weekday. The others have millions. What do you do with it?",
        right="Keep it whole on each worker, and add up its gradients like those of the dense weights.",
        because="Each worker needs all 7 rows: about as many bytes travel either way. A whole one needs no request and no wait.",
        wrong={
            "Split it like the others: one rule for all.": "It would work. But workers would wait for each other for seven rows.",
            "Give it to the fastest worker.": "Then all ask that one, in every step.",
            "Leave its gradients where they arise.": "Then each worker would train its own weekdays.",
        },
    ),
)
