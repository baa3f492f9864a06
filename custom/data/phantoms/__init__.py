"""The embedded phantom federations, written as files."""
