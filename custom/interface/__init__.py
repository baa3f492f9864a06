"""What a method implements, and what it is given: the interface between methods and the course of rounds."""
