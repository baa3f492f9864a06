"""What a run leaves behind: state, records, summary; and what it takes."""
