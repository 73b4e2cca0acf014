"""Many served models on the cores of one machine: the cost of each, the allocation of cores, and the resulting latencies.

curve        how long a model works on a request, fitted to measured times
simulation   the machine on a simulated clock: cores, queues, contention
allocation   policies that share the cores out, and the most load that each can take
experiment   a main model and its A/B variants, as load
real         the same pools and the same load on real cores: measures curves
served       exported models in this process, whose requests keep two real cores busy
exported     one exported model, asked by our processor or by a session of TensorFlow's own
"""
