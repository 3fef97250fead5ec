"""A bare training script: the same imports, data, model and first steps as a trial, and no harness around them.

Run by fixed_cost.py: `python bare.py ARGUMENTS.json` prints the nanoseconds from the process's start, which the
arguments tell, to the end of the last step.
"""

import importlib
import itertools
import json
import random
import sys
import time
from pathlib import Path

import numpy as np
import torch

arguments = json.loads(Path(sys.argv[1]).read_text())
workload = importlib.import_module(arguments["module"]).WORKLOAD
params, mode, seed = arguments["params"], arguments["mode"], arguments["seed"]
random.seed(seed)
np.random.seed(seed)
torch.manual_seed(seed)
dataset = workload.dataset(Path(arguments["data_folder"]), mode=mode, seed=seed, on_bad_item="fatal", **params)
loader = torch.utils.data.DataLoader(
    dataset,
    batch_size=params["batch"],
    shuffle=True,
    drop_last=True,
    generator=torch.Generator().manual_seed(seed),
    collate_fn=workload.collate,
)
model = workload.model(mode=mode, **params)
model.train()
optimizer_class, optimizer_arguments = workload.optimizer()
optimizer = optimizer_class(model.parameters(), **optimizer_arguments)
for batch in itertools.islice(itertools.chain.from_iterable(itertools.repeat(loader)), arguments["steps"]):
    loss = workload.loss(model, batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(time.monotonic_ns() - arguments["started_ns"])
