"""`ctrlab bench store`: the store of rows on a disk beside other stores."""
