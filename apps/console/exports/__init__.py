"""What is in a project, taken home: rows as CSV, JSONL or Parquet, judgements as training sets."""
