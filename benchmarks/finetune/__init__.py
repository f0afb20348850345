"""What fine-tuning gains on regions with few data, and what it forgets of those it came from.

python -m benchmarks.finetune run
python -m benchmarks.finetune report
"""
