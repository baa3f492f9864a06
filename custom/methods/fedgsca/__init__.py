"""FedGSCA (Ye et al., 2025): selection of samples, credal labels."""
