"""The right answer to the first exercise on latency, which other tests use as a load, too."""

from ctrlab.lessons.queueing import NEVER


def open_loop(due, line):
    sent = answered = 0
    while answered < len(due):
        while sent < len(due) and due[sent] <= line.now():
            line.send(sent)
            sent += 1
        for number, at in line.wait(due[sent] if sent < len(due) else NEVER):
            yield number, at - due[number]
            answered += 1
