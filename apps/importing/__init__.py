"""A federation from data as they lie: folders, datalists and the public layouts of known data sets."""
