"""Reading JSON without Python objects: item boundaries, strings, numbers.

scan             the items of a body, every byte checked; its kernels: value_scan, tokens
shape            depth and number of values, before anything is decoded
document_texts   texts of a decoded document, by path
"""
