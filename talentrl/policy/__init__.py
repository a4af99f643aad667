"""The language model: conversations as token ids, the tag parser, and generation engines."""
