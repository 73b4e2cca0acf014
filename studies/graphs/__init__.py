"""`ctrlab bench graphs`: served graphs from ids, without a front, beside onnxruntime."""
