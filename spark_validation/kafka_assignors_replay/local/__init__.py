"""The local engine: it folds the records of Parquet files in this process and its workers, without Java."""
