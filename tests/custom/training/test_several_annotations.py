import json
import shutil

import numpy as np
import pytest
import torch
from support.several_annotators import write_site

from fedannot.custom.data.site_data import LoadedCase, load_site_data
from fedannot.custom.settings import ClassifierTrainingSettings, TrainingSettings
from fedannot.custom.training.batches import PatchBatches, training_batches
from fedannot.custom.training.losses import build_loss
from fedannot.custom.training.several_annotations import FractionBatches
from fedannot.custom.training.soft_losses import SoftLoss
from fedannot.transforms.errors import DataError

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("several") / "site"
    return folder, write_site(folder)


def batches(site, consensus, *, labels=None, **settings):
    data = load_site_data(site[0], site[0].parent / "store", site="s", consensus=consensus)
    training = TrainingSettings(batch_size=2, consensus=consensus, **settings)
    return training_batches(data, training, CPU, labels=labels)


def epochs(made, seed, number=1):
    generator = torch.Generator().manual_seed(seed)
    return [
        {int(i): label for b in made.epoch(generator) for i, label in zip(b.samples, b.labels, strict=True)}
        for _ in range(number)
    ]


def test_every_epoch_draws_an_annotation_of_each_case_and_the_same_seed_the_same(site):
    masks = site[1]
    drawn = epochs(batches(site, "random-per-epoch"), 5, number=40)
    chosen = np.array(
        [
            [[np.array_equal(epoch[case][0], mask) for mask in masks[case]].index(True) for case in range(3)]
            for epoch in drawn
        ]
    )
    counts = np.stack([np.bincount(of_case, minlength=3) for of_case in chosen.T])
    # 40 draws of three annotators: each between 4 and 26 with a probability of 0.9999.
    assert counts.min() >= 4
    assert counts.max() <= 26
    again = epochs(batches(site, "random-per-epoch"), 5, number=2)
    assert all(torch.equal(again[epoch][case], drawn[epoch][case]) for epoch in range(2) for case in range(3))
    assert not all(
        torch.equal(epochs(batches(site, "random-per-epoch"), 6)[0][case], drawn[0][case]) for case in range(3)
    )


def test_fractions_are_those_of_the_annotators_also_where_samples_are_mirrored(site):
    masks = site[1]
    made = batches(site, "soft", augmentation=["flip", "rotation"])
    assert made.samples_per_epoch == 3
    for batch in made.epoch(torch.Generator().manual_seed(1)):
        for number, sample in enumerate(batch.samples.tolist()):
            fraction = torch.from_numpy(masks[sample].astype(np.float32).mean(0))
            inside = (batch.places[number] >= 0).all(dim=0)
            rows, columns = batch.places[number].long().clamp(min=0)
            expected = torch.where(inside, fraction[rows, columns], batch.labels[number, 0].float())
            torch.testing.assert_close(batch.fractions[number, 1], expected)
            torch.testing.assert_close(batch.fractions[number].sum(0), torch.ones(16, 16))
            assert inside.float().mean() > 0.8


@pytest.mark.parametrize("rule", ["soft", "random-per-epoch"])
def test_corrected_labels_do_not_go_with_what_is_drawn_or_counted(site, rule):
    with pytest.raises(DataError, match=rf"Site s: found corrected labels and the rule '{rule}'"):
        batches(site, rule, labels=torch.zeros(3, 16, 16))


@pytest.mark.parametrize("loss", ["ce", "dice", "batch_dice", "ce_dice", "ce_batch_dice"])
def test_fractions_of_annotators_who_agree_give_the_loss_of_their_label(loss):
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 3, 8, 8, generator=generator, requires_grad=True)
    labels = torch.randint(0, 3, (2, 1, 8, 8), generator=generator)
    labels[:, :, :2] = 255
    fractions = torch.stack([(labels == label)[:, 0].float() for label in range(3)], dim=1)
    weights = (0.5, 1.0, 2.0) if loss.startswith("ce") else ()
    training = TrainingSettings(loss=loss, class_weights=weights)
    expected = build_loss(training)(logits, labels)
    soft = SoftLoss.of(training)(logits, fractions)
    torch.testing.assert_close(soft, expected)
    torch.testing.assert_close(torch.autograd.grad(soft, logits), torch.autograd.grad(expected, logits))


@pytest.mark.parametrize("loss", ["ce", "dice", "ce_batch_dice"])
def test_the_loss_of_fractions_is_least_at_the_fractions(loss):
    fractions = torch.rand(1, 2, 6, 6, generator=torch.Generator().manual_seed(3)) + 0.1
    fractions = fractions / fractions.sum(1, keepdim=True)
    soft = SoftLoss(loss)
    least = soft(fractions.log(), fractions)
    assert all(soft((fractions**power).log(), fractions) > least for power in (0.5, 2.0, 50.0))


def test_a_batch_in_which_everything_is_ignored_has_loss_and_gradient_0():
    logits = torch.randn(1, 2, 4, 4, requires_grad=True)
    loss = SoftLoss("ce", (1.0, 2.0))(logits, torch.zeros(1, 2, 4, 4))
    loss.backward()
    assert float(loss.detach()) == 0
    assert not logits.grad.any()


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (TrainingSettings, {"consensus": "soft", "loss": "nr_dice"}, "'nr_dice', which takes no fractions"),
        (TrainingSettings, {"consensus": "soft", "loss": "TverskyLoss"}, "takes no fractions"),
        (TrainingSettings, {"consensus": "first"}, "xpected majority, staple"),
        (
            TrainingSettings,
            {"consensus": "soft", "augmentation": [{"_target_": "RandFlipd", "keys": ["image", "label"]}]},
            "do not say where a pixel comes from",
        ),
        (ClassifierTrainingSettings, {"consensus": "staple"}, "which is of masks"),
        (ClassifierTrainingSettings, {"consensus": "soft", "loss": "FocalLoss"}, "takes fractions"),
    ],
)
def test_rules_that_a_training_cannot_use_are_refused(kind, settings, message):
    with pytest.raises(ValueError, match=message):
        kind(**settings)


def test_fractions_follow_a_volume_into_its_patches():
    generator = torch.Generator().manual_seed(0)
    annotations = torch.randint(0, 2, (1, 3, 20, 18, 14), generator=generator).to(torch.uint8)
    label = (annotations.sum(1) > 1).to(torch.uint8)
    case = LoadedCase("a", "a", torch.randn(1, 1, 20, 18, 14), label, None, (1.0, 1.0, 1.0), annotations=annotations)
    patches = PatchBatches([case], (16, 16, 16), 2, 2, CPU, with_places=True)
    (batch,) = FractionBatches(patches, [annotations[0]], 2).epoch(generator)
    places = batch.places[1].long()
    inside = (places >= 0).all(dim=0)
    expected = annotations[0].float().mean(0)[tuple(places.clamp(min=0))]
    torch.testing.assert_close(batch.fractions[1, 1][inside], expected[inside])
    torch.testing.assert_close(batch.fractions[1, 1][~inside], batch.labels[1, 0][~inside].float())
    assert 0 < int((~inside).sum()) < int(inside.sum())


@pytest.mark.parametrize(("consensus", "fractions"), [("random-per-epoch", None), ("soft", [[0, 1, 0]])])
def test_a_reviewed_class_is_trained_on_whatever_annotators_gave(site, tmp_path, consensus, fractions):
    folder = shutil.copytree(site[0], tmp_path / "site")
    (folder / "data.yaml").write_text("pipeline: classification\nclasses: [a, b, c]\nchannels: 1\nsize: [8, 8]\n")
    labels = [{"file": label, "annotator": name} for label, name in ((2, "A"), (2, "B"), (0, "C"))]
    item = {"image": "0.png", "labels": labels, "label": 1, "given_label": 2}
    (folder / "datalist.json").write_text(json.dumps({"training": [item]}))
    data = load_site_data(folder, tmp_path / "store", site="s", consensus=consensus)
    made = training_batches(data, ClassifierTrainingSettings(batch_size=1, augmentation=False), CPU)
    for seed in range(4):
        (batch,) = made.epoch(torch.Generator().manual_seed(seed))
        assert batch.labels.tolist() == [1]
        assert (None if batch.fractions is None else batch.fractions.tolist()) == fractions
