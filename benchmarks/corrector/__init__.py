"""What each part of the corrector is worth: variants of it trained and judged alike.

python -m benchmarks.corrector run
python -m benchmarks.corrector report
"""
