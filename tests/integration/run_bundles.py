"""Runs bundles as MONAI's command line does, in a process in which fedannot cannot be imported; see test_bundles.py.

For each bundle, folder of images and folder of results the latter also gets what went into the network and came out.
"""

import json
import sys
from pathlib import Path

# Python raises ImportError for a module whose entry is None.
sys.modules["fedannot"] = None  # type: ignore[assignment]

import torch  # noqa: E402
from monai.bundle import ConfigWorkflow, run  # noqa: E402

torch.set_num_threads(1)
for bundle, images, results in json.loads(sys.argv[1]):
    config = f"{bundle}/configs/inference.json"
    run(config_file=config, dataset_dir=images, output_dir=results, write_probabilities=True)
    workflow = ConfigWorkflow(config, workflow_type="infer", bundle_root=bundle, dataset_dir=images)
    workflow.initialize()
    loader, predict = (workflow.parser.get_parsed_content(name) for name in ("dataloader", "predict"))
    seen = {}
    for items in loader:
        for item, logits in zip(items, predict(items), strict=True):
            name = Path(item["image"].meta["filename_or_obj"]).name
            seen[name] = {"image": item["image"].as_tensor().clone(), "logits": logits.clone()}
    torch.save(seen, Path(results) / "seen.pt")
assert not [name for name, module in sys.modules.items() if name.startswith("fedannot") and module is not None]
print("ran without fedannot")
