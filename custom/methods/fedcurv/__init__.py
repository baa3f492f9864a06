"""FedCurv (Shoham et al., 2019): curvatures of the sites' losses."""
