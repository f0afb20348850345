"""What articles say of Mamba's speed and memory, measured where this runs.

One piece for each claim: `claims` has what is claimed and what a measurement is, the modules
``measure_*`` measure, `run` goes through the pieces, `table` and `plot` show what came out.
"""
