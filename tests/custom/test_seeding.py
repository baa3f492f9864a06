"""Derived seeds: fixed for all time, and different for different purposes."""

import itertools
import subprocess
import sys

import pytest

from fedannot.custom.seeding import derive_seed


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        # `printf '0/site-1/3/training' | sha256sum`: the first 16 digits, halved.
        ((0, "site-1", 3, "training"), 0xF0E17496A6130CBC // 2),
        ((7,), 0x7902699BE42C8A8E // 2),
    ],
)
def test_seed_is_half_of_the_first_eight_bytes_of_the_hash(arguments, expected):
    assert derive_seed(*arguments) == expected


def test_seeds_are_in_range_and_differ_between_purposes():
    purposes = list(itertools.product(range(10), ("site-1", "site-2", "server"), range(50), ("training", "noise")))
    seeds = [derive_seed(*purpose) for purpose in purposes]
    assert len(set(seeds)) == len(purposes)
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_seed_is_the_same_in_another_process():
    program = "from fedannot.custom.seeding import derive_seed; print(derive_seed(3, 'site-1', 2))"
    # Python randomises the hash of texts per process; a derived seed must not depend on it.
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(result.stdout) == derive_seed(3, "site-1", 2)


def test_names_of_files_that_are_no_text_have_seeds():
    assert derive_seed(0, "\udcff.png") != derive_seed(0, "\udcfe.png")
