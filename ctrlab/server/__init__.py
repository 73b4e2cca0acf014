"""A server for exported models: `ctrlab serve`. Needs the extra `serve`.

Fronts carry bytes: `rest` over HTTP, `rpc` over gRPC. `models` hands them to processors, and says when there are too many.
"""
