"""What a federation's images are like, and which training suits them."""
