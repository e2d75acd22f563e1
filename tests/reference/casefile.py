# Writes cases.bin: text lines, each tensor line followed by that tensor's little-endian values.
# It may know: numpy, torch tensors, the file's format.
# It must not know: what the cases mean, heed's sources.
"""
    heed-reference 1
    versions torch ... numpy ... onnxruntime ... transformers ...
    case KIND NAME key=value ...
    tensor NAME f32|f64|i32|u8 NDIM d0 d1 ...
    <values>
    end
"""
import numpy as np
import torch

DTYPES = {np.dtype("<f4"): "f32", np.dtype("<f8"): "f64", np.dtype("<i4"): "i32", np.dtype("u1"): "u8"}


class Writer:
    def __init__(self, file, versions):
        self.file = file
        self.line("heed-reference 1")
        self.line("versions " + versions)

    def line(self, text):
        self.file.write(text.encode("ascii") + b"\n")

    def case(self, kind, name, parameters, tensors):
        self.line(f"case {kind} {name} " + " ".join(f"{key}={value}" for key, value in parameters.items()))
        for key, tensor in tensors.items():
            array = np.ascontiguousarray(tensor.detach().numpy() if torch.is_tensor(tensor) else tensor)
            array = array.astype(array.dtype.newbyteorder("<"))
            shape = " ".join(str(size) for size in array.shape)
            self.line(f"tensor {key} {DTYPES[array.dtype]} {array.ndim} {shape}")
            self.file.write(array.tobytes() + b"\n")
        self.line("end")
