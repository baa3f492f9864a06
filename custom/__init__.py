"""The federated part: site statistics, aggregation weights, local training, and the NVFlare components around them."""
