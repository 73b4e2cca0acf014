"""The files that tables are saved in.

    table_arrays   a table as named arrays in a file: the whole table or a delta
    partition      splits a table into shards by key hash, and joins shards
    saves          the metadata of each file of a run, the chain it belongs to, and which files may be deleted
    merging        merges the saves of a chain into one
    resharding     splits files into shards for many workers, and merges chains into one file
    folder_lock    allows one writer at a time in a folder

`ctrlab.training.checkpoint` writes them and restores from them.
"""
