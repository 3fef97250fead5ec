"""What several workloads share of their models: one file a family, used by one small file a workload."""
