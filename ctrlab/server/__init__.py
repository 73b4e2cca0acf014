"""A server for exported models: `ctrlab serve`. Needs the extra `serve`. And the split of users among the arms of an A/B test.

Fronts carry bytes: `rest` over HTTP, `rpc` over gRPC. `models` passes them to processors, and refuses them if there are too many.
"""

from ctrlab.server.arms import Split

__all__ = ["Split"]
