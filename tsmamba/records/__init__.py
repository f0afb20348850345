"""Events of many subjects, such as records of stays: read, cleaned, and laid out for models."""
