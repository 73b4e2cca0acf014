"""Four questions on what a latency is, and on who measures it."""

from ctrlab.lessons.quiz import Question

QUESTIONS = (
    Question(
        "A client asks once per ms, and each answer takes 1 ms. The server stalls for 1,000 ms. The client waits for each "
        "answer. How many slow requests does it record?",
        right="One.",
        because="It waits inside the stall, and so it sends nothing. About 1,000 requests that were due were never sent in time.",
        wrong={
            "About 1,000.": "This is what an open loop records. A closed loop has one request inside the stall.",
            "None.": "The request that was sent last before the stall's end waits, and it is recorded.",
            "About 500.": "Half of what was due would wait for more than half of the stall. The closed loop has not sent them.",
        },
    ),
    Question(
        "A run has 50 requests. What is the 99th percentile of their latencies?",
        right="The slowest of the 50, which says little about one in a hundred.",
        because="99 % of 50 are 49.5, so all 50 are needed. A second run may well have a very different slowest one.",
        wrong={
            "The mean of the two slowest.": "A mean of two is the latency of nobody.",
            "The second slowest.": "Only 49 of 50 stay within it, and that is 98 %.",
            "It is as exact as one of 5,000 requests.": "Of 5,000 there are 50 above it. Of 50 there is hardly one.",
        },
    ),
    Question(
        "Requests come by chance, each takes 1 ms, and the server is busy for 90 % of the time. What is the mean latency?",
        right="5.5 ms.",
        because="In M/D/1 the mean wait is load / (2 × (1 - load)) calls: 0.9 / 0.2 = 4.5. The call itself is 1 more.",
        wrong={
            "1 ms.": "This holds if each request comes when nobody is inside. By chance many come together.",
            "1.1 ms.": "The server idles for 10 % of the time. Waiting grows with 1 / (1 - load), which is 10 here.",
            "0.9 ms.": "Nothing is answered in less than a call.",
        },
    ),
    Question(
        "Which of these is a fair use of a closed loop?",
        right="How many rows per second does a nightly job score that asks again after each answer?",
        because="The job is a closed loop itself, and its throughput is what counts. Nobody else is due meanwhile.",
        wrong={
            "What is the p99 that users of a site will meet?": "Users don't wait for each other. They are an open loop.",
            "Does the server meet its limit while it loads a new version?": "A closed loop omits who comes in a stall.",
            "Which of two servers has the better tail at 500 per second?": "A slow server slows the loop down.",
        },
    ),
)
