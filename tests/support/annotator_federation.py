"""Sites whose annotators err differently, which answer `auto` by the real code."""

import json

import numpy as np
import torch
from PIL import Image
from support.site_views import HandmadeSite

from fedannot.custom.corrections.targets import active_targets
from fedannot.custom.data.datalist import TRAINING
from fedannot.custom.methods.auto import METHOD
from fedannot.custom.methods.auto.settings import AutoSettings
from fedannot.custom.methods.auto.site import AutoSite
from fedannot.custom.networks.described import described_network
from fedannot.custom.outbound.registry import OutboundRegistry

REGISTRY = OutboundRegistry(METHOD.outbound_fields)
NETWORK = {"features": (4, 4, 8, 8, 8, 4)}
BY_ANNOTATOR = {"bias_unit": "annotator", "boundary_evidence": "image", "correct": ["offset"]}
# Else federated averaging tolerates the few masks that err.
BY_ANNOTATOR["reference_level"] = "image_boundary"
# By site the annotators of its cases with their biases in pixels.
EXACT = [(None, 0.0)] * 6
SITES = {"north": [("large", 3.0)] * 6 + [("exact", 0.0)] * 6, "south": EXACT, "east": EXACT}


def settings_of(**changes):
    return AutoSettings.model_validate({"rounds": 9, "warmup_rounds": 1, "network": NETWORK} | BY_ANNOTATOR | changes)


def write_site(folder, annotators, seed):
    """Bright discs with a blurred edge, of one patient each."""
    generator, entries = np.random.default_rng(seed), []
    for part in ("images", "labels"):
        (folder / part).mkdir(parents=True)
    for number, (name, bias) in enumerate(annotators):
        grid = np.indices((48, 48)) - 24 - generator.uniform(-2, 2, (2, 1, 1))
        away = np.hypot(*grid) - 9
        image = 40 + 150 / (1 + np.exp(away)) + generator.normal(scale=8, size=away.shape)
        for part, values in {"images": image.clip(0, 255), "labels": 200 * (away <= bias)}.items():
            Image.fromarray(values.astype(np.uint8)).save(folder / part / f"{number}.png")
        entry = {"image": f"images/{number}.png", "label": f"labels/{number}.png", "patient": f"p{number}"}
        entries.append(entry if name is None else entry | {"annotator": name})
    (folder / "datalist.json").write_text(json.dumps({"training": entries}))
    (folder / "data.yaml").write_text("channels: 1\nclasses: [lesion]\nsize: [48, 48]\nlabels: {0: 0, 200: 1}\n")


class DiscModel(torch.nn.Module):
    """Predicts exactly what is half as bright as a disc: its image boundary."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, images):
        smooth = torch.nn.functional.avg_pool2d(images, 3, 1, 1, count_include_pad=False)
        middle = (smooth.amax((2, 3), keepdim=True) + smooth.amin((2, 3), keepdim=True)) / 2
        return torch.cat([torch.zeros_like(smooth), 8 * (smooth - middle)], dim=1)


class Federation:
    """Sites that answer by the real code; messages and answers go through JSON and the guard."""

    def __init__(self, folder, data, settings, names=tuple(SITES), network=None):
        self.method, self.network = AutoSite(settings), network or described_network(settings.network)
        self.sites = {name: HandmadeSite(folder / name, data_folder=data / name, name=name) for name in names}
        self.asked = []

    def __call__(self, task, sites=None, own_messages=None):
        return {
            name: self.answer(task, name, (own_messages or {}).get(name, {})) for name in sorted(sites or self.sites)
        }

    def answer(self, task, name, message):
        self.asked.append((task, name, message))
        fields = dict(self.method.answer(task, self.network, self.view(name, message)).fields)
        answer = REGISTRY.without_small(task, fields)
        REGISTRY.check(task, answer)
        assert REGISTRY.refusal(task, answer, 1) is None
        return answer

    def view(self, name, message=None):
        return self.sites[name].view(self.method, 1, json.loads(json.dumps(message or {})))

    def moved(self, name):
        """The site's given labels, those that it trains on, and which differ."""
        view = self.view(name)
        data = view.load(TRAINING)
        given = [case.label[0].numpy() for case in data.cases]
        labels = active_targets(view.corrections.latest(), data, view.locate().folder).labels
        trained = given if labels is None else [label.numpy() for label in labels]
        return given, trained, [not np.array_equal(*two) for two in zip(given, trained, strict=True)]
