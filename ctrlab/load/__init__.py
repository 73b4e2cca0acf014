"""Load on a served model: sends requests at scheduled times, however slowly they are answered, and records the outcome.

    posts = [client.post("/v1/models/ctr:predict", body.data, token) for body in requests.bodies(...)]
    outcome = client.send([Target("127.0.0.1", 8501)], posts, arrivals.poisson(rate=300.0, seconds=10.0))
    outcome.percentile(99)

The generator is open-loop: the times at which requests are due are drawn beforehand, and a latency counts from the time at
which its request was due. A closed loop sends the next request only after an answer. So it sends nothing while a server stalls,
and the stall counts as one slow request among many fast ones ("coordinated omission"). Nothing here imports TensorFlow.

Source: Gil Tene, "How NOT to measure latency"; https://github.com/giltene/wrk2.
"""
