"""GPUs made of host memory, for machines without a card: built once, loaded into TensorFlow before it starts its devices.

`simulated_gpu.cc` is the device; `building` compiles and keeps it; `loading` brings it into this process. Whoever wants GPUs
asks `across.devices.gpus`.
"""
