"""From records to verdicts: pure functions over `record` values, numpy and scipy; never torch, the store or the report."""
