"""Methods in which every site has a part of the model for itself."""
