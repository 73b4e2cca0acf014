"""The questions at a lesson's end: one module per lesson, named as its checks are."""
