"""Studies: measurements and comparisons that no user of the package imports. They are not installed; only a checkout contains
them.

A study is a folder with a module `command`, whose function of that name is its command line. `ctrlab bench NAME` starts it as a
process, by its name in `ctrlab.cli.bench.studies`. A study may import `ctrlab` and other studies; `ctrlab` and the lessons import
no study.
"""
