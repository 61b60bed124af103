"""Reading JSON without Python objects: item boundaries, strings, numbers.

item_scanner     the items of a body, every byte checked; its kernels: item_scan_kernels,
                 token_scan
depth_and_size   depth and number of values, before anything is decoded
strings_by_path  texts of a decoded document, by path
"""
