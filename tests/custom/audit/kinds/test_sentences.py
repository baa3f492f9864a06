"""What is said of findings are sentences, whatever a class is called."""

import numpy as np

from fedannot.custom.audit.kinds.kind import Suspicion
from fedannot.custom.audit.kinds.missing import Missing, RealObjects
from fedannot.custom.audit.kinds.missing_slice import MissingSlice

NAMES = ("background", "mRNA spot")


def test_a_sentence_begins_with_a_word_of_its_own():
    one = Suspicion(0, (False, 0.774, False, 9.0, 3.0), labels=(1,))
    usual = RealObjects(weights=np.zeros(5), pixels={1: 1.0})
    assert Missing().sentence(one, usual, NAMES, "px") == (
        "Here mRNA spot may have been left out: the model sees it with a probability of 77 %, and nothing is annotated."
    )
    assert MissingSlice().sentence(Suspicion(0, 1.0, labels=(1,)), None, NAMES, "px") == (
        "In the slices on both sides mRNA spot is annotated, and in this one it is not."
    )
