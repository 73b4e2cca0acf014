"""One module a lesson, named after its topic, with its `CHECKS`: exercise number -> check."""
