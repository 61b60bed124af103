"""Reading JSON without Python objects: item boundaries, strings, numbers.

item_scanner     the items of a body, every byte checked; its kernels: value_scan, tokens
depth_and_size   depth and number of values, before anything is decoded
string_values    texts of a decoded document, by path
"""
