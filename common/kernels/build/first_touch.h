/* Functions that `first_touch.c` adds to the module; `shard/segment/first_touch.py` calls them. */
__attribute__((visibility("hidden"))) PyObject *first_touch_watch(PyObject *self, PyObject *args);
__attribute__((visibility("hidden"))) PyObject *first_touch_verify(PyObject *self, PyObject *args);
__attribute__((visibility("hidden"))) PyObject *first_touch_forget(PyObject *self, PyObject *args);
