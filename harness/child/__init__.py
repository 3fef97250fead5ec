"""The child process: one trial, from trial.json to record.rank<k>.json. `__main__` is where to start reading."""
