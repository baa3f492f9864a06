"""Seeds for everything random: each is derived from the run's seed and from what it is used for."""

import hashlib


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return the seed for one purpose, for instance a site's local training in one round.

    Different purposes give unrelated streams, and a site can compute its own seeds without knowing the other sites.

    Args:
        seed: the run's seed.
        purpose: what the random numbers are for, e.g. ``("site-1", 3, "training")``.

    Returns:
        A non-negative integer below 2**63, the same on every machine and Python version.

    Example:
        >>> derive_seed(0, "site-1", 3, "training") == derive_seed(0, "site-1", 3, "training")
        True
        >>> derive_seed(0, "site-1", 3) == derive_seed(0, "site-2", 3)
        False
    """
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogateescape")).digest()[:8], "big") >> 1
