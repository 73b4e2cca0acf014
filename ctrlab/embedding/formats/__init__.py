"""The files that tables are saved in.

    table_arrays   a table as named arrays of a file, whole or what changed of it
    partition      a table cut into shards by its keys, and put together again
    saves          what each file of a run says of itself, the chain that it belongs to, and which files may go
    merging        the saves of a chain overlaid into one
    resharding     files cut into the shards of many workers, and chains merged into one file
    folder_lock    one writer at a time in a folder

Training writes them and restores from them: `ctrlab.training.checkpoint`.
"""
