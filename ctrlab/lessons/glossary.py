"""The words of the field, each explained once, with an example in numbers. `notebooks/glossary.md` is written from here.

A term's other names stand in brackets behind it. An explanation uses plain words, or words that have an entry of their own.
"""

from __future__ import annotations

import re
from functools import cache

TERMS = {
    "A/B test": "Two versions serve two groups of users at the same time, to see which is better. Each group is an arm.",
    "admission": "An id gets a table row once it came often enough. With a threshold of 2, an id that comes once has no row.",
    "all-gather": "Each worker has a part, and all get all parts. With 1 and 3, both workers have 1 and 3 afterwards.",
    "all-reduce": "Workers sum what each has, and all get the sum. With gradients 1 and 3, both workers have 4 afterwards.",
    "all-to-all": "Each worker sends each other one a part of its own: with 3 workers, 6 messages, all at the same time.",
    "alpha-beta model": "A message of n bytes takes alpha + beta n. With 50 µs and 1 ns per byte, 1,000 bytes take 51 µs.",
    "arithmetic intensity": "Floating-point operations per byte moved. Adding two float32 vectors: 1 operation per 12 bytes.",
    "attention": "A sum whose weights come from the data. DIN weighs each past item by how well it fits the candidate.",
    "AUC": "The probability that a random clicked example gets a higher score than a random unclicked one. Guessing has 0.5.",
    "AUGRU": "A GRU whose update gate is multiplied by an attention weight, so that unimportant items hardly change the state.",
    "auxiliary loss": "A second loss inside a model. DIEN's asks each hidden state to tell the next item from a random one.",
    "bandwidth-bound": "Limited by the bytes that a link takes per second: a message with less latency would not help.",
    "batch": "The examples of one step, often 512. The loss is their mean.",
    "BatchNorm": "A layer that shifts and scales each column by the mean and the variance of the batch.",
    "bf16 (bfloat16)": "A 16-bit float: the range of float32 with 8 bits of precision. 1.01 becomes 1.0078125.",
    "Bloom filter": "A set in a few bits per key. It may say yes to a key that it never saw, but never no to one that it did.",
    "bound": "A limit that nothing passes. Of a time: its bytes or operations, divided by what the machine can do.",
    "broadcast (broadcasting)": "Adding [50, 80] to [200, 1, 80] gives [200, 50, 80], as if both had been copied to that shape.",
    "bucket": "One of the slots that a hash function maps to. With 10,000 buckets, an id becomes a number from 0 to 9,999.",
    "bisection": "Halving a range until it is short enough. From 100 to 200, four tries leave a sixteenth of the range.",
    "cache line": "What memory and caches exchange: 64 bytes. Reading 1 byte costs as much as reading the line around it.",
    "cancellation": "Two nearly equal numbers are subtracted: the result keeps their rounding errors, and few of their digits.",
    "C interface": "Plain functions and structs, which nearly every language can call. It says who owns each byte.",
    "calibration": "The sum of predicted probabilities over the number of clicks. At 1.05, five percent too many are predicted.",
    "checkpoint": "The training's state in a file: weights, slots, position. Training goes on from it after a crash.",
    "checksum (CRC)": "A short number computed from bytes. If a bit of them flips, the number no longer fits.",
    "click-through rate (CTR)": "Clicks per impression. At 0.05, one of twenty shown items is clicked.",
    "closed loop": "A client that asks again only when it was answered. While the server stalls, it asks nothing.",
    "compaction": "Rewriting the live records of a file and deleting the file, to get rid of the dead ones.",
    "compute-bound": "Limited by the speed of arithmetic: faster memory would not help.",
    "condition variable": "Where a thread waits until another says that something has changed. Then it looks again.",
    "coordinated omission": "A load generator waits while the server stalls: the slow requests are left out, many become one.",
    "data parallelism": "Each worker has all weights and a part of the examples. Their gradients are added up.",
    "dedicated cores": "Cores that take one model's requests alone. They idle when it is quiet, and no other model delays it.",
    "delta": "What changed since the last save. If a thousandth of the rows changed, the delta has a thousandth of the bytes.",
    "denormal (subnormal)": "The tiniest floats, below 1.2e-38 in float32. The closer to zero, the fewer bits of precision.",
    "dictionary encoding": "Each different value is stored once, and the column stores numbers. Parquet does this.",
    "draining (drain)": "Taking no new requests and answering those inside, before a process is stopped.",
    "dynamic batching": "Requests that come close together share one call of the model. A size and a wait say when it leaves.",
    "embedding": "A short vector that stands for an id. User 7 reads line 7 of a table; training changes those that were read.",
    "epoch": "One pass over all training examples.",
    "eviction": "Taking rows out of a table or a cache: those that came in none of the last 10,000 steps, for instance.",
    "example": "One row of the data: what was shown to one user at one moment, and whether it was clicked.",
    "expert": "In MMoE, one of several towers that read the same input. Each task mixes their outputs in its own way.",
    "factorization machine (FM)": "A model that adds the dot products of all pairs of n embeddings, with about n products.",
    "false sharing": "Two threads write different variables on one cache line, which then travels between their cores.",
    "fixed cost (of a call)": "What a call costs before its first row: 10, say, where each row costs 1 more.",
    "folding (constant folding)": "Computing once what depends on weights alone: a scale of 1.5 before a weight of 4 becomes 6.",
    "FMA (fused multiply-add)": "One instruction for a × b + c, with one rounding. It counts as two operations.",
    "fsync": "The call that returns when a file's bytes are on the disk. Without it, a loss of power may lose them.",
    "garbage": "Records that no longer count, because a newer one has the same key.",
    "GAUC": "AUC per user, averaged with weights. It asks whether one user's items are ordered well.",
    "gather": "Reading rows at given places: rows 7, 3 and 7 of a table. Its gradient is a scatter.",
    "goodput": "Answers that come in time, per second. A server that works on late answers has none.",
    "gradient": "How the loss changes when a weight changes. A step moves each weight against its gradient.",
    "gradient bucket": "Gradients that one all-reduce sums together: few large messages in place of many small ones.",
    "graph": "The ops of a function and the tensors between them, recorded once by tracing and then run without Python.",
    "GRU": "A recurrent cell: from the state and the next item it computes the next state, through two gates.",
    "hash collision": "Two ids get the same bucket and share one table row. With 100 ids in 10,000 buckets, expect 0.5 pairs.",
    "hash function": "A function that makes a well-mixed number of any key: equal keys give equal numbers.",
    "headroom": "What a server can do beyond its load. Two at 60 % have too little: one alone would have 120 % to do.",
    "hit rate": "The share of lookups that find their row in the fast memory.",
    "hyperthread": "One of two hardware threads of a core. Linux shows each as a CPU; both share the core's arithmetic units.",
    "idempotent": "Doing it twice is as doing it once. A prediction is, so it may be asked for again; a payment is not.",
    "hoisting": "Moving out of a loop what stays the same in it: 200 equal products become one.",
    "impression": "One item that was shown to one user.",
    "in-memory index": "A table in memory from a key to the place of its record on the disk: key 7, file 1, byte 96.",
    "interval": "A range that holds the true value with a stated probability, its coverage. Three blocks give 75 %, nine 96 %.",
    "isolation": "Work in one place cannot slow work in another: a model with threads of its own, for instance.",
    "kernel": "The C++ or CUDA function that does an op's work. (A notebook's kernel is the Python process behind it.)",
    "lambda": "A function without a name. Python: lambda b: b + 1. In C++, [&] lets it use the variables around it.",
    "latency-bound": "Limited by the time before a message's first byte: a link with more bytes per second would not help.",
    "least in flight": "A policy: a request goes where the fewest are inside. With 2, 0 and 1 inside, it goes to the second.",
    "LFU": "Least frequently used: what was asked for least often leaves the memory first.",
    "Little's law": "The mean number inside is the rate times the mean time inside: 6 per minute, 2 minutes each, 12 inside.",
    "little-endian": "Numbers whose lowest byte comes first: 258 in four bytes is 2, 1, 0, 0.",
    "load factor": "Entries per slot of a hash table. At 0.9 a search is several times as long as at 0.5.",
    "load balancer (reverse proxy)": "Takes requests at one address and hands each to one of several servers.",
    "log-structured": "Written only at the end of files. An update appends a new record, and the old one becomes garbage.",
    "logit": "The number before the sigmoid. A logit of 0 is a probability of one half.",
    "loop interchange": "Swapping two nested loops, so that the inner one walks along memory.",
    "loss": "The number that training makes smaller. For clicks: minus the logarithm of the probability given to what happened.",
    "LRU": "Least recently used: what was asked for longest ago leaves the memory first.",
    "M/M/c": "A queue in front of c cores; gaps and service times are exponential. One core at 80 % waits 4 service times.",
    "manifest": "A file that lists what is there. Of a version: columns, sizes, checksums; of a training: the whole saves.",
    "matrix multiplication (GEMM)": "[M, K] times [K, N] takes 2 M K N operations.",
    "memory-bound": "Limited by how fast bytes arrive: faster arithmetic would not help.",
    "mixed precision": "Multiplying in 16 bits while weights and sums stay in 32.",
    "model parallelism": "Each worker has a part of the weights: of four, one has a quarter of a table's rows.",
    "multi-hot": "A vector with a one for each id in a set. {1, 3} of 5 words: 0 1 0 1 0.",
    "n+1 redundancy": "One server more than the load needs. If 5 are needed, 6 run, and one may crash.",
    "nonlinearity": "A function that takes no sum apart, such as ReLU: ReLU(3 - 2) is 1, but ReLU(3) + ReLU(-2) is 3.",
    "one-hot": "A vector of zeros with a single one, at the id. Word 3 of 5: 0 0 0 1 0.",
    "op": "One operation of a TensorFlow graph: MatMul, Gather, or one of ours.",
    "open inference protocol": "What NVIDIA Triton and KServe speak: named tensors, as JSON or as raw bytes.",
    "outlier": "A number far beyond its neighbours. If it sets their common scale, they are all rounded to few steps.",
    "open loop": "A client that asks when its schedule says so, whether or not it was answered, as a crowd of users does.",
    "overfitting": "Getting better on the training examples and worse on others.",
    "padding": "Zeros that make all rows of a batch equally long. Lengths 1 and 9 are stored as 9 and 9.",
    "paired measurement": "Both sides are timed in turns, and the ratio is taken turn by turn. A busy machine slows down both.",
    "Parquet": "A file format that stores columns one after the other, compressed, in row groups.",
    "parsing": "Turning a request's bytes into tensors. In JSON each byte needs a decision; a raw tensor needs one.",
    "percentile": "A rank among sorted values. The 99th of 1,000 latencies is the 990th: ten are above it.",
    "pinning": "Threads that may run on certain CPUs only, so that their data stays in those CPUs' caches.",
    "pointer": "The address of the first number of an array. p[3] is the fourth number; where the array ends, it does not say.",
    "pooling": "Making one vector of several, by sum or mean: a bag of 5 embeddings becomes 1.",
    "prefetch": "Preparing the next batch, or loading the next rows, while this step computes.",
    "processor": "The library that answers requests with an exported model: it parses, runs and writes, without Python.",
    "protocol buffer": "A binary format: each field is a number that names it, a length, and its bytes.",
    "push-back (back-pressure)": "A server refuses at once what it can't answer in time. In HTTP this is status 429.",
    "quantization (quantize)": "Storing numbers in fewer bits. In int8 with a scale of 0.01, 0.624 becomes 62: it means 0.62.",
    "ragged tensor": "Rows of different lengths, stored one after the other, with the places where each begins: its row splits.",
    "ranking request": "One user and many candidates, the items that want a score. 200 candidates get 200 answers.",
    "readers-writer lock": "Many readers share it, or one writer has it alone: requests read weights, an update writes them.",
    "record": "One entry in a file: a key, a row and what guards them, for instance a checksum.",
    "reduce-scatter": "Workers sum what each has, and each gets a part of the sum: the first half of a ring all-reduce.",
    "ReLU": "max(x, 0).",
    "resource pooling": "One queue in front of many cores. No core idles while a request waits, as it may with a queue per core.",
    "roofline": "A chart of the bound against arithmetic intensity: a slope where memory limits, a roof where arithmetic does.",
    "rolling replacement": "New processes for all servers, one after the other, so that the others always answer.",
    "round robin": "A policy: members in turn, 1, 2, 3, 1, 2, 3.",
    "row group": "A part of a Parquet file, of some 100,000 rows, that can be read alone.",
    "salt": "A text that is hashed together with a key, so that two uses of one hash are independent.",
    "sanitizer": "A compiler's mode in which a program reports accesses outside its memory, undefined behaviour, or data races.",
    "SavedModel": "TensorFlow's format for a graph with named inputs and outputs. A server needs no code of the model.",
    "scatter": "Writing or adding rows at given places. Equal places must be added up, or one of them is lost.",
    "segment file": "One file of a log-structured store. A full one is never written again; compaction deletes it.",
    "segment sum": "Adding up rows that belong together: rows 1 to 3 give user A's sum, rows 4 and 5 user B's.",
    "service curve": "How long a core works on a request, by its rows: 300 µs and 10 more per candidate, for instance.",
    "service time": "How long a core works on a request. Its latency is that and the wait before.",
    "session group": "Members with threads of their own that share one session, and so one copy of the weights.",
    "shard (sharding)": "The part of a table that one worker has: of two workers, one has the rows of even keys, for instance.",
    "slot": "A number that an optimizer keeps per weight. Adam keeps two, m and v.",
    "stage": "A thread that does the input part of the next step while this step runs.",
    "staleness": "The age of the weights that answer. If a version comes every 60 minutes, it is at most 60 minutes.",
    "starvation": "Waiting for ever because others go first: a writer, while new readers come before the old ones leave.",
    "step": "One batch: forward, backward, and one update of the weights.",
    "strong scaling": "More workers share the same batch: of 512 examples, 8 have 64 each. With weak scaling each has 512.",
    "table row": "One id's line in an embedding table: 16 floats, for instance, which are 64 bytes, one cache line.",
    "tail latency (p99)": "The time that 99 of 100 requests stay below. Users meet the slow ones.",
    "thread pool": "Threads that wait for work and take it from a queue. Starting a thread per piece of work costs more.",
    "tier": "One level of memory: DRAM above a disk. Rows that are used often stay in the upper one.",
    "tiling (blocking)": "Working on pieces that fit into the cache, so that each byte is loaded once and used often.",
    "tombstone": "A record that says that a key was erased. Without it an older record would bring the key back.",
    "torn write": "A write that a crash cut off: 40 of 64 bytes are new, the others old.",
    "tower": "Some dense layers one after the other, at the end of a click model.",
    "tracing": "Running a Python function once with symbolic tensors, to record its graph. New shapes may need another run.",
    "transpose": "Rows become columns: [M, N] becomes [N, M].",
    "utilization": "The share of time in which a server is busy. At 0.9 it idles for a tenth of the time.",
    "vectorization (SIMD)": "One instruction for several numbers, its lanes: 8 floats with AVX2, 16 with AVX-512.",
    "version folder": "One export of a model, in a folder that is a number, such as models/ctr/7. Servers take the newest.",
    "view (of bytes)": "An address and a size: bytes that are used where they are. It is right as long as they stay there.",
    "warm-up": "Calls before the timed ones: tracing, caches and buffers are paid for there.",
    "weights": "The numbers that are trained.",
    "write amplification": "Bytes written to the disk per byte that the user wrote. At 3, each byte is copied twice on average.",
    "zero-copy": "Handing on an address in place of bytes. A tensor of 8 MB moves as 16 bytes.",
    "Zipf's law": "The k-th most frequent id comes about 1/k times as often as the first: a few ids make most of the traffic.",
}


PAGE = "glossary.md"

# What no link goes into: code, HTML, links, formulas and headings.
_LEFT_ALONE = re.compile(r"```.*?```|<!--.*?-->|<[^>]+>|`[^`]*`|!?\[[^\]]*\]\([^)]*\)|\$[^$\n]+\$|^#[^\n]*$", re.S | re.M)


def names(term: str) -> list[str]:
    """The term and its other names: "tiling (blocking)" is found under both."""
    first, _, others = term.rstrip(")").partition(" (")
    return [first, *(others.split(", ") if others else [])]


def page() -> str:
    """The glossary as Markdown."""
    lines = ["# Glossary", "", "Written by `python -m ctrlab.lessons.build` from `ctrlab/lessons/glossary.py`.", ""]
    for term in sorted(TERMS, key=str.lower):
        name, *others = names(term)
        lines += [f"### {name}", "", *([f"*Also: {', '.join(others)}.*", ""] if others else []), TERMS[term], ""]
    return "\n".join(lines)


class Links:
    """Links the first use of each term in a lesson to its entry. One object goes through a lesson's cells in order."""

    def __init__(self, to: str = f"../{PAGE}"):
        self._to, self._linked = to, set()

    def linked(self, text: str) -> str:
        """A Markdown text with its links."""
        pieces, end = [], 0
        for kept in _LEFT_ALONE.finditer(text):
            pieces += [_any_name().sub(self._link, text[end : kept.start()]), kept[0]]
            end = kept.end()
        return "".join([*pieces, _any_name().sub(self._link, text[end:])])

    def _link(self, found: re.Match) -> str:
        term = _term_of(found[1])
        if term is None or term in self._linked:
            return found[0]
        self._linked.add(term)
        return f"[{found[0]}]({self._to}#{names(term)[0].replace(' ', '-')})"


@cache
def _by_name() -> dict[str, str]:
    return {name: term for term in TERMS for name in names(term)}


@cache
def _any_name() -> re.Pattern:
    """Any term as a word of its own, in the singular or with an s; the longest first."""
    alternatives = "|".join(map(re.escape, sorted(_by_name(), key=len, reverse=True)))
    return re.compile(rf"(?<![\w/-])({alternatives})s?(?![\w-])", re.I)


def _term_of(found: str) -> str | None:
    """The term that a text names. "GRU" is a name and "gru" is not; "Batch" is one at a sentence's beginning."""
    by_name = _by_name()
    return by_name.get(found) or by_name.get(found[0].lower() + found[1:])
