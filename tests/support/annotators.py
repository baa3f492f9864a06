"""What an audit says of annotators, made by hand."""

from typing import Any

from fedannot.custom.annotation_bias.annotators.records import AnnotatorAudit, AnnotatorPair, AnnotatorsAudit, Figure


def parameter(
    estimate: float | None, effect: float | None, status: str, patients: int = 12, **why: dict[str, float]
) -> dict[str, Any]:
    """A parameter of an annotator as a record has it."""
    low, high = (None, None) if estimate is None else (estimate - 0.2, estimate + 0.2)
    evidence = [{"code": code, "numbers": numbers} for code, numbers in why.items()]
    return {
        "estimate": estimate, "low": low, "high": high, "patients": patients, "slope": 1.0, "auroc": 0.9,
        "effect": effect, "p_value": None, "status": status, "evidence": evidence,
    }  # fmt: skip


def annotator(name: str, *, number: int | None = None, **parts: Any) -> AnnotatorAudit:
    """One annotator of twelve patients."""
    values = {"annotator": name, "number": number, "num_cases": 14, "num_patients": 12} | parts
    return AnnotatorAudit.model_validate(values)


def annotators_audit(*annotators: AnnotatorAudit, **parts: Any) -> AnnotatorsAudit:
    """A site's annotators."""
    return AnnotatorsAudit.model_validate({"unit": "px", "annotators": annotators} | parts)


def some_annotators(prefix: str = "") -> AnnotatorsAudit:
    """Three annotators: one who deviates, one like the others, one of too few patients."""
    figure = Figure(value=0.83, low=0.8, high=0.86, patients=12)
    return annotators_audit(
        annotator(f"{prefix}Zoe", consensus={"offset 1": parameter(0.1, 0.1, "not_significant")}),
        annotator(
            f"{prefix}Ann",
            number=4,
            consensus={"offset 1": parameter(3.9, 3.9, "confirmed"), "missing 1": parameter(0.32, 0.27, "confirmed")},
            predictions={"offset 1": parameter(5.1, 3.0, "not_significant")},
        ),
        annotator(
            f"{prefix}Cem",
            predictions={"offset 1": parameter(2.0, None, "unknown", 3, few_patients={"patients": 3, "needed": 5})},
        ),
        num_unnamed=2,
        pairs=(AnnotatorPair(annotators=(f"{prefix}Ann", f"{prefix}Zoe"), label=1, dice=figure, hd95=figure),),
        kappa=figure,
    )
