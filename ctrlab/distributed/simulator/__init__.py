"""Simulates the time of a step of many workers from its parts.

    step = compute + launches + copies + reduce + exchange

    compute     a part per step, and one per example of the worker's B / W
    launches of kernels, if the host is slower with them than the device with its work
    copies      of the batch to the devices
    reduce      the gradients of the dense weights, summed over all workers: a ring all-reduce
    exchange    ids to the workers that have their rows, rows back, their gradients again: all-to-all

No part is hidden behind computing: `ctrlab bench workers` finds that a link's seconds add to the step. It is plain arithmetic on
NumPy arrays. A message of n bytes takes alpha + beta n seconds on a link: Hockney, "The communication challenge for MPP", 1994.

`ctrlab workers plan` uses it. Numbers of published clusters, the fit to measured steps, and the fastest number of workers lie in
notebooks/02_ops/17_more_workers.
"""
