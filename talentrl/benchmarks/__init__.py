"""Task sets: loaders that turn a benchmark's own files into frames of tasks and passages."""
