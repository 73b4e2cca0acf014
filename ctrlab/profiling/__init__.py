"""Measuring: the stopwatch, what this machine can do at most, the least work of an op, and where a step's time goes."""

__all__ = ["machine", "parts", "roofline", "timing", "traces", "work"]
