"""Losses of MONAI and PyTorch by settings, against the same classes called by hand."""

import monai.losses
import pytest
import torch

from fedannot.custom.components.component import ComponentError, read_component
from fedannot.custom.components.roles import Role
from fedannot.custom.settings import ClassifierTrainingSettings, TrainingSettings
from fedannot.custom.training.batch import Batch
from fedannot.custom.training.component_loss import ComponentLoss, Ignoring
from fedannot.custom.training.corrected_loss import ForwardCorrected, annotated_log_probabilities
from fedannot.custom.training.losses import build_loss
from fedannot.custom.training.marginal_classes import MarginalClasses
from fedannot.custom.training.objectives import Step, SupervisedObjective
from fedannot.transforms.errors import DataError
from fedannot.transforms.ignored_label import IGNORED_LABEL

GENERATOR = torch.Generator().manual_seed(2)
LOGITS = torch.randn(3, 3, 6, 5, generator=GENERATOR)  # (B, C + 1, H, W)
LABELS = torch.randint(3, (3, 1, 6, 5), generator=GENERATOR, dtype=torch.uint8)
INDICES = LABELS.squeeze(1).long()
ONE_HOT = {"to_onehot_y": True, "softmax": True}


def by_settings(loss):
    return build_loss(TrainingSettings.model_validate({"loss": loss}))


@pytest.mark.parametrize(
    ("loss", "by_hand"),
    [
        ("DiceLoss", lambda: monai.losses.DiceLoss(**ONE_HOT)(LOGITS, LABELS)),
        (
            {"_target_": "DiceFocalLoss", "softmax": True, "to_onehot_y": True, "gamma": 1.5},
            lambda: monai.losses.DiceFocalLoss(**ONE_HOT, gamma=1.5)(LOGITS, LABELS),
        ),
        (
            {"_target_": "DiceCELoss", "include_background": False, "weight": [1.0, 2.0, 3.0]},
            lambda: monai.losses.DiceCELoss(**ONE_HOT, include_background=False, weight=torch.tensor([1.0, 2.0, 3.0]))(
                LOGITS, LABELS
            ),
        ),
        (
            {"_target_": "TverskyLoss", "sigmoid": True, "alpha": 0.3},
            lambda: monai.losses.TverskyLoss(to_onehot_y=True, sigmoid=True, alpha=0.3)(LOGITS, LABELS),
        ),
        (
            {"_target_": "torch.nn.CrossEntropyLoss", "label_smoothing": 0.1},
            lambda: torch.nn.CrossEntropyLoss(label_smoothing=0.1)(LOGITS, INDICES),
        ),
    ],
)
def test_a_loss_is_that_of_the_class_called_by_hand(loss, by_hand):
    assert torch.equal(by_settings(loss)(LOGITS, LABELS), by_hand())


@pytest.mark.parametrize("loss", ["FocalLoss", "torch.nn.CrossEntropyLoss"])
def test_classes_of_whole_images_have_losses_too(loss):
    logits, classes = LOGITS[:, :, 0, 0], torch.tensor([0, 2, 1])
    built = build_loss(ClassifierTrainingSettings.model_validate({"loss": loss}))
    cross_entropy = torch.nn.functional.cross_entropy(logits, classes)
    if loss == "FocalLoss":
        probability = logits.softmax(dim=1).gather(1, classes[:, None])
        # (1 − p)^2 · −log p of the right class; the other classes' terms are 0, and count in the mean.
        expected = ((1 - probability) ** 2 * -probability.log()).sum() / logits.numel()
    else:
        expected = cross_entropy
    assert float(built(logits, classes)) == pytest.approx(float(expected), rel=1e-5)


IGNORING = [
    ("torch.nn.CrossEntropyLoss", Ignoring.ITSELF),
    ({"_target_": "FocalLoss", "gamma": 2.0}, Ignoring.RESCALED),
    ({"_target_": "GeneralizedDiceLoss", "include_background": False}, Ignoring.FILLED),
    ({"_target_": "DiceLoss", "include_background": False}, None),
]


@pytest.mark.parametrize(("loss", "way"), IGNORING)
def test_ignored_pixels_are_as_if_they_were_not_there(loss, way):
    """Two of six rows are cut off, and the value is that of the class called on the rest."""
    built = by_settings(loss)
    if way is not None:
        assert built.ignoring(3, 2) is way
    labels, logits = LABELS.clone(), LOGITS.clone().requires_grad_()
    labels[:, :, 4:] = IGNORED_LABEL
    value = built(logits, labels)
    assert float(value.detach()) == pytest.approx(
        float(by_settings(loss)(LOGITS[:, :, :4], LABELS[:, :, :4])), rel=1e-4
    )
    value.backward()
    assert not logits.grad[:, :, 4:].any()
    assert logits.grad[:, :, :4].any()
    nothing = built(logits, torch.full_like(labels, IGNORED_LABEL))
    assert float(nothing.detach()) == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("loss", ["DiceCELoss", "HausdorffDTLoss", "GeneralizedDiceLoss"])
def test_a_loss_that_cannot_leave_pixels_out_refuses_them(loss):
    built = by_settings(loss)
    assert float(built(LOGITS, LABELS)) > 0
    labels = LABELS.clone()
    labels[0, 0, 0, 0] = IGNORED_LABEL
    with pytest.raises(DataError, match=rf"the loss monai.losses.{loss} has no way to leave them out"):
        built(LOGITS, labels)


SPEC = {"_target_": "DiceCELoss", **ONE_HOT}


def objective_value(loss, **options):
    batch = Batch(LOGITS, LABELS, torch.arange(3))
    return SupervisedObjective(loss, **options)(lambda images: images, batch, Step(0, 0, 1))


def test_incomplete_annotations_give_a_class_what_it_would_be_given_as_probabilities():
    """By value: the probabilities themselves, and MONAI's loss without an activation."""
    completeness = torch.tensor([[0.5, 1.0], [0.7, 0.2], [1.0, 1.0]])
    value = objective_value(by_settings({"_target_": "DiceLoss", **ONE_HOT}), completeness=completeness)
    probabilities = annotated_log_probabilities(LOGITS, completeness).exp()
    assert torch.allclose(value, monai.losses.DiceLoss(to_onehot_y=True)(probabilities, LABELS))


def test_classes_that_are_not_annotated_give_the_sum_of_their_probabilities():
    labels = LABELS.masked_fill(LABELS == 2, 0)
    batch = Batch(LOGITS, labels, torch.arange(3))
    marginal = MarginalClasses([1], num_classes=2)
    objective = SupervisedObjective(by_settings({"_target_": "DiceLoss", **ONE_HOT}), marginal=marginal)
    softmax = LOGITS.softmax(dim=1)
    merged = torch.stack([softmax[:, 0] + softmax[:, 2], softmax[:, 1]], dim=1)
    expected = monai.losses.DiceLoss(to_onehot_y=True)(merged, labels)
    assert torch.allclose(objective(lambda images: images, batch, Step(0, 0, 1)), expected)


def test_known_confusions_correct_a_class_by_its_probabilities():
    transition = torch.tensor([[0.8, 0.2, 0.0], [0.0, 1.0, 0.0], [0.1, 0.0, 0.9]])
    corrected = ForwardCorrected(transition, by_settings({"_target_": "DiceLoss", **ONE_HOT}))
    given = torch.einsum("ij,bihw->bjhw", transition, LOGITS.softmax(dim=1))
    expected = monai.losses.DiceLoss(to_onehot_y=True)(given, LABELS)
    assert torch.allclose(corrected(LOGITS, LABELS), expected, atol=1e-6)
    cross_entropy = ForwardCorrected(transition, by_settings("torch.nn.CrossEntropyLoss"))
    assert torch.allclose(cross_entropy(LOGITS, LABELS), ForwardCorrected(transition)(LOGITS, LABELS), rtol=1e-4)


def test_a_loss_of_sigmoids_cannot_be_given_log_probabilities():
    loss = by_settings({"_target_": "DiceLoss", "sigmoid": True})
    assert float(loss(LOGITS, LABELS)) > 0
    with pytest.raises(DataError, match="does not follow from the probabilities of classes"):
        objective_value(loss, completeness=torch.ones(3, 2))
    with pytest.raises(DataError, match="softmax in place of sigmoid"):
        ForwardCorrected(torch.eye(3), loss)(LOGITS, LABELS)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        ({"_target_": "DiceLoss", "softmax": False}, "would take logits for probabilities"),
        ({"_target_": "DiceLoss", "reduction": "none"}, "cannot be computed of logits"),
        ({"_target_": "DiceLoss", "gama": 2}, "has no argument 'gama'"),
        ("torch.nn.MSELoss", "cannot be computed of logits"),
        ("torch.nn.NLLLoss", "use CrossEntropyLoss"),
    ],
)
def test_a_class_that_is_no_loss_of_classes_is_refused(loss, said):
    with pytest.raises(ComponentError, match=said):
        ComponentLoss(read_component(loss, Role.LOSS))(LOGITS, LABELS)


WEIGHTS = (0.5, 1.0, 4.0)


@pytest.mark.parametrize("loss", ["ce", "ce_dice", "ce_batch_dice"])
def test_class_weights_are_pytorchs(loss):
    built = build_loss(TrainingSettings(loss=loss, class_weights=WEIGHTS))
    expected = torch.nn.CrossEntropyLoss(torch.tensor(WEIGHTS))(LOGITS, INDICES)
    if loss != "ce":
        options = {"include_background": False, "batch": loss == "ce_batch_dice"}
        expected = expected + monai.losses.DiceLoss(**ONE_HOT, **options)(LOGITS, LABELS)
    assert float(built(LOGITS, LABELS)) == pytest.approx(float(expected), rel=1e-6)
    of_classes = build_loss(ClassifierTrainingSettings(class_weights=WEIGHTS))
    assert float(of_classes(torch.log(torch.tensor([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])), torch.tensor([2, 0]))) == (
        # (4 · −log 0.5 + 0.5 · −log 0.6) / 4.5
        pytest.approx(0.672888, rel=1e-5)
    )


def test_class_weights_of_a_site_are_those_of_the_classes_that_it_annotates():
    built = build_loss(TrainingSettings(class_weights=WEIGHTS), annotated=(2,))
    binary = (LABELS == 2).to(torch.uint8)
    expected = torch.nn.functional.cross_entropy(LOGITS[:, :2], binary[:, 0].long(), torch.tensor([0.5, 4.0]))
    assert torch.allclose(built(LOGITS[:, :2], binary), expected)
