"""Forms of operators that ONNX lacks or computes otherwise, one module for each kind of operator.

Each module lists its forms in FORMS, by operator. A form takes the arguments of its operator and calls other operators.
It returns NotImplemented if the ONNX form of the operator is right for these arguments. Sizes of tensors must not be
used where they may be open: a batch may have any size.
"""
