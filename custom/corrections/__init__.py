"""What a site corrects in what it trains on: one typed record, one store, and which labels count by it."""
