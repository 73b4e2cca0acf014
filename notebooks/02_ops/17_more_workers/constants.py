"""Numbers of GPU clusters to simulate with, from what others published, in seconds, bytes and FLOP/s.

They were written down before any published conclusion was simulated with them (`published`), except `COMPILED`, which was counted
again. For AWS's trainings the source gives few numbers, such as 3 TB and 4 million parameters. The GPUs (V100), their hosts and
network, the batch, the columns and the tables are our assumptions.

Latencies of links are NCCL's `hwLat`, per step of a ring. Its `baseLat`, 8.4 us per ring of any size, is left out: it is the same
for all numbers of GPUs above one. NCCL, src/graph/tuning.cc (Ring, Simple).
"""

from __future__ import annotations

from ctrlab.distributed import require
from ctrlab.distributed.simulator.cluster import Link
from ctrlab.distributed.simulator.model import FLOAT

PCIE = Link(5.7e-6, 1 / 12e9)
"""PCI Express 3.0 x16 between GPUs: per step of a ring, and 12 GB/s. NCCL, src/graph/tuning.cc and topo.h."""
NVLINK_V100 = Link(3.4e-6, 1 / 120e9)
"""Six links of 20 GB/s each. NCCL, the same files."""
NVLINK_A100 = Link(3.4e-6, 1 / 235e9)
"""Twelve links of 20 GB/s, of which NCCL counts on 235 GB/s."""
NETWORK_100G = Link(9.6e-6, 1 / 12e9)
"""A network of 100 Gbit/s with remote direct memory access. NCCL, the same files."""
NETWORK_25G = Link(9.6e-6, 1 / 3.125e9)
"""The 25 Gbit/s of an instance with eight V100 (Amazon EC2's p3.16xlarge), at NCCL's latency, which TCP does not reach."""

COPY = 1 / 12e9
"""Seconds per byte from a host to its GPU: NCCL's rate of PCI Express 3.0 x16."""
LAUNCH = 10e-6
"""Seconds of a host's thread per kernel. "On the order of 10 us": Modal's GPU Glossary, "Overhead"."""
KERNELS = 800
"""Number of kernels that are launched per step of a DLRM: Agrawal, "Deep Learning Recommendation Model (DLRM)", 2020, counted
on a T4.
"""

COMPILED = 260 / 336
"""The share of stock TensorFlow's launches that XLA leaves, for the same DLRM. Counted: `data/measurements/simulator.json`.

It is counted in code that XLA compiles for a CPU. For a GPU it may leave fewer, so a published share of launches may fall further
than this.
"""
TENSOR = 18e-6
"""Seconds of a Python thread per tensor that it passes to TensorFlow. Measured: the same file."""

WIDE_DEEP = 989 * 1_024 + 4 * 1_024 * 1_024 + 1_024 + 5 * 1_024 + 1
"""Dense weights of NVIDIA's Wide & Deep: 976 embedding numbers and 13 others, five layers of 1,024, one logit.

NVIDIA, DeepLearningExamples, TensorFlow2/Recommendation/WideAndDeep.
"""
WIDE_DEEP_BATCH, WIDE_DEEP_COLUMNS = 131_072, 26
V100_EXAMPLES, A100_EXAMPLES = 321_816, 1_269_638
"""Examples per second that it trains on one GPU, without XLA: float32 on a V100, TF32 on an A100. The same source."""
V100_EIGHT, A100_EIGHT = 1_490_044, 3_351_118
"""The same on eight of them."""
V100, A100 = (6 * WIDE_DEEP * examples for examples in (V100_EXAMPLES, A100_EXAMPLES))
"""FLOP/s that a GPU attains on dense layers of this kind, by those rates: 6 flops per weight and example."""
V100_MEMORY, A100_MEMORY = 0.9e12, 2.039e12
"""Bytes per second of a GPU's memory: the data sheets of the V100 and of the A100 80GB."""

DLRM = 13 * 512 + 512 * 256 + 256 * 128 + 480 * 1_024 + 1_024 * 1_024 + 1_024 * 512 + 512 * 256 + 256
"""Dense weights, without biases, of NVIDIA's DLRM on Criteo's 1 TB: towers of 512-256-128 and 1024-1024-512-256-1, rows of 128.

NVIDIA, DeepLearningExamples, TensorFlow2/Recommendation/DLRM_and_DCNv2.
"""
DLRM_BATCH, DLRM_DIM = 65_536, 128
DLRM_V100_EXAMPLES, DLRM_A100_EXAMPLES = 663e3, 2.84e6
"""Examples per second that it trains on one GPU with XLA: float32 on a V100, TF32 on an A100. The same source."""
DLRM_V100_EIGHT, DLRM_A100_EIGHT = 3.13e6, 10.9e6
"""The same on eight of them."""

MOVED = 6
"""Memory accesses per number of a row when a gradient is applied: gradient, weight and slot, each read and written."""

CORES_PER_GPU = 8
"""CPU cores per GPU of Amazon EC2's p3 instances, on which AWS's trainings are assumed to have run."""
DGX1_CORES, DGX_A100_CORES = 40, 128
"""CPU cores of NVIDIA's servers with eight V100 and eight A100: their data sheets."""
INPUT_THREADS = 16
"""Number of threads that read and parse: the parallelism of interleave and map in "Optimizing CTR Model Training on 1B+
Datapoints", AWS, 2024.
"""
AWS_EXAMPLE_BYTES = 3_000
"""Bytes per example: 3 TB for a billion examples, by the same source."""
AWS_PARAMETERS = (3e6, 4e6, 10e6)
"""Numbers of parameters of its models: "around 4 million", and the range for which few GPUs were faster."""
AWS_BATCH = 2_048
"""Examples per step, an assumption because the source names none: the ladder's `large_batch`. See `published` for the batches
of a conclusion.
"""
CRITEO_IDS, CRITEO_DIM = 26, 16
"""Number of id columns of Criteo's set, and the dimension of DeepRec's DeepFM on it: assumed if a source names no tables."""
COLUMNS = 39
"""Numbers of tensors per batch, assumed if a source names none: those of the contest's data and of Criteo's."""


def per_row(dim: float, memory: float) -> float:
    """Seconds to apply a row's gradient on a device with this memory bandwidth, in bytes per second: the least traffic."""
    require.numbers("A device's bytes per second", memory, 0, above=True, single=True)
    return MOVED * FLOAT * dim / memory
