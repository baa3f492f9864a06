"""Decoupled predictions (Gao et al., MICCAI 2022): networks and losses."""
