"""Generated images with the masks that they were made from."""
