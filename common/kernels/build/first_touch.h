/* What `first_touch.c` adds to the extension module; Python sees it in `shard/segment/first_touch.py`. */
__attribute__((visibility("hidden"))) PyObject *first_touch_watch(PyObject *self, PyObject *args);
__attribute__((visibility("hidden"))) PyObject *first_touch_verify(PyObject *self, PyObject *args);
__attribute__((visibility("hidden"))) PyObject *first_touch_forget(PyObject *self, PyObject *args);
