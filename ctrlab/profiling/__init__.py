"""Measuring: the stopwatch, this machine's ceilings, the least work of an op, and where a step's time goes."""

__all__ = ["machine", "parts", "roofline", "timing", "traces", "work"]
