"""Four questions on training with several workers."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "A model has 4 MB of dense gradients. How much does each of 100 workers send in a ring all-reduce?",
        right="Nearly 8 MB.",
        because="2 (W - 1) / W times the bytes: 1.98 times 4 MB. It hardly depends on the number of workers.",
        wrong={
            "400 MB: 4 MB to each other worker.": "This is what each would send without a ring.",
            "4 MB: its gradient, once.": "Chunks go around twice: once to be summed, once to tell the sums.",
            "40 kB: its chunk.": "A chunk is what it sends in one round. There are 198 rounds.",
        },
    ),
    Question(
        "Worker 0 has 3 rows with a mean loss of 2, worker 1 has one row with a loss of 6. What is the loss of the batch?",
        right="3: each row counts once.",
        because="(3 × 2 + 1 × 6) / 4 = 3. Each mean is weighed by its number of rows.",
        wrong={
            "4: the mean of both.": "Then the one row of worker 1 would count as much as three others.",
            "8: the sum.": "A sum of means is no mean.",
            "It depends on the number of workers.": "It must not: the batch is the same.",
        },
    ),
    Question(
        "Gradients are averaged with the right weights. Batch normalization uses each worker's own statistics. What is wrong?",
        right="The model's outputs change with the number of workers, and so do loss and gradients.",
        because="Each row is normalized by the rows beside it. With other neighbours it gets another output.",
        wrong={
            "Nothing: the average repairs it.": "An average of gradients of other functions is no gradient of the right one.",
            "Only the averages over many batches, which evaluation uses.": "They are wrong, too. But training is another one.",
            "It is slower.": "It is faster: nothing is exchanged. This is why some do it.",
        },
    ),
    Question(
        "A worker is killed at step 70 of a training that saves every 20 steps. The other is ended. What do you lose?",
        right="The steps since the last save that both have written.",
        because="A save counts when all workers' files are there. From it, any number of workers goes on.",
        wrong={
            "Everything: the killed worker had half of the rows.": "Its rows are in its files of the last save.",
            "The killed worker's examples.": "The rows that are left of the epoch are dealt out anew.",
            "Nothing: the other worker has all weights.": "It has the dense ones, and its own shard of the tables.",
        },
    ),
)
