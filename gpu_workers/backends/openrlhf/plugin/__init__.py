"""What we add to OpenRLHF without a fork. It travels to the cluster as package `tentalis_rlhf`, alone.

On a cluster node there is OpenRLHF, Ray, vLLM and this directory: imports among its modules are relative, and whatever
is heavy is imported only once OpenRLHF itself did (a vLLM worker must never load DeepSpeed).
"""
