"""One Ray actor sends tensors to another. With two GPUs, each actor uses one."""
import ray
import torch

import ucxpool.ray

NUM_GPUS = 1 if torch.cuda.device_count() >= 2 else 0
DEVICE = "cuda" if NUM_GPUS else "cpu"

ucxpool.ray.register()


@ray.remote(num_gpus=NUM_GPUS, enable_tensor_transport=True)
class Worker:
    @ray.method(tensor_transport="ucxpool")
    def weights(self):
        layer = torch.ones(1 << 20, device=DEVICE)
        return {"layers": [layer] * 3, "step": 7}

    def sum_layers(self, weights):
        return sum(float(layer.sum()) for layer in weights["layers"])


one, two = Worker.remote(), Worker.remote()
print(ray.get(two.sum_layers.remote(one.weights.remote())))
