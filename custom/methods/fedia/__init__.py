"""FedIA (Xiang et al., MICCAI 2024): completeness of annotations, and their correction."""
