"""Several servers behind one address: `ctrlab fleet`. Needs the extra `serve`.

split        which arm of an A/B test a user is in
instance     what is known of an instance, and which one a request goes to
process      its process; `launch` is what that runs first
warm         the first requests of an instance, ours
supervisor   the life cycle: start, warm, take requests, drain, stop; again after a crash
upstream     requests to an instance
front        takes clients' requests, hands them on, and tries once more elsewhere what an instance did not answer
run          all of it together, as a command or in a thread
"""
