"""What measures and compares, and what no user of the package imports. Nothing here is installed: it lies in a checkout alone.

A study is a folder with a module `command`, whose function of that name is its command line. `ctrlab bench NAME` starts it as a
process, by its name in `ctrlab.cli.bench.studies`. A study may import `ctrlab` and other studies; `ctrlab` and the lessons import
none.
"""
