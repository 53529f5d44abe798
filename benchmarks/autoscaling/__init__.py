"""The number of consumers and the partitions that move: published autoscalers of consumer groups and ours.

    python -m benchmarks.autoscaling                  # all traces, five minutes of CPU
    python -m benchmarks.autoscaling --measurements 500   # as long as the papers' streams
    python -m benchmarks.autoscaling --small          # seconds: does it run?
    python -m benchmarks.autoscaling --picture docs/autoscaling.svg
    python -m benchmarks.autoscaling.broker           # a real group, see `broker`

The benchmarks reproduce:

- D. Landau, X. Andrade, J. G. Barbosa, "Kafka Consumer Group Autoscaler", arXiv 2206.11170 (2022): the
  R-score, the Modified Any Fit heuristics, the random streams of measurements;
- D. Landau, N. Saurabh, X. Andrade, J. G. Barbosa, "Multi-Objective Optimization of Consumer Group
  Autoscaling in Message Broker Systems", arXiv 2402.06085 (2024), and "Latency and cost-aware consumer
  group autoscaling in message broker systems", Journal of Parallel and Distributed Computing 201:105071
  (2025): latency, compared with a group whose assignment does not follow the load.

Modules: `traces` (measurements), `heuristics` (the published ones), `ours`, `contestants`, `queues`
(latency), `simulation` (one contestant on one trace), `report` and `picture`.

All contestants run in one program, on the same traces and queues, and with the same information.
"""
