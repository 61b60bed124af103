/* What `lazy_verification.c` adds to the module, for `shard/segment/lazy_verification.py`. */
__attribute__((visibility("hidden"))) PyObject *lazy_verification_watch(PyObject *, PyObject *);
__attribute__((visibility("hidden"))) PyObject *lazy_verification_verify(PyObject *, PyObject *);
__attribute__((visibility("hidden"))) PyObject *lazy_verification_forget(PyObject *, PyObject *);
