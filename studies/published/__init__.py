"""`ctrlab bench published`: what others found about more workers, beside the simulator."""
