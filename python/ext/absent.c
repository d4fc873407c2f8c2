// absent.c - MLX's submodules metal and cuda, which report whether that hardware is available.

#include <string.h>

#include "ext.h"

// metal and cuda --------------------------------------------------------------------------------------------

static PyObject *no(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Py_RETURN_FALSE;
}

static PyObject *nothing(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    Py_RETURN_NONE;
}

static PyObject *start_capture(PyObject *module, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"path", NULL};
    PyObject *path;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O:start_capture", names, &path))
        return NULL;
    PyObject *bytes = ext_path(path, "start_capture");
    bool begun = bytes && ext_profile_begin(bytes);
    Py_XDECREF(bytes);
    return begun ? nothing(module, NULL) : NULL;
}

static PyObject *stop_capture(PyObject *module, PyObject *unused) {
    PyObject *table = ext_profile_end();
    Py_XDECREF(table);
    return table ? nothing(module, unused) : NULL;
}

static PyObject *no_info(PyObject *module, PyObject *unused) {
    (void)module, (void)unused;
    return PyDict_New();
}

#define KEYWORDS(function) (PyCFunction)(void (*)(void)) function, METH_VARARGS | METH_KEYWORDS
static PyMethodDef metal_functions[] = {
    {"is_available", no, METH_NOARGS, PyDoc_STR("is_available()\n--\n\nFalse: there is no Metal here.")},
    {"start_capture", KEYWORDS(start_capture),
     PyDoc_STR("start_capture(path)\n--\n\nBegins a profile, whose timeline for Perfetto is left at path.")},
    {"stop_capture", stop_capture, METH_NOARGS,
     PyDoc_STR("stop_capture()\n--\n\nEnds the profile that start_capture began.")},
    {"device_info", no_info, METH_NOARGS,
     PyDoc_STR("device_info()\n--\n\nAn empty dict: there is no Metal here.")},
    {0},
};

static PyObject *has_cuda(PyObject *module, PyObject *unused) {
    zl_device_info info;
    bool found = false;
    (void)module, (void)unused;
    for (int i = 0; !found && zl_device(i, &info); i++)
        found = info.available && !strcmp(info.device, "cuda");
    return PyBool_FromLong(found);
}

static PyMethodDef cuda_functions[] = {
    {"is_available", has_cuda, METH_NOARGS,
     PyDoc_STR("is_available()\n--\n\nWhether there is an NVIDIA GPU here.")},
    {0},
};

// The old names, from before these functions moved to mlx.core.
static const char *const moved[] = {"get_active_memory", "get_peak_memory",  "reset_peak_memory",
                                    "get_cache_memory",  "set_memory_limit", "set_cache_limit",
                                    "set_wired_limit",   "clear_cache"};

static bool add_moved(PyObject *core, PyObject *metal) {
    for (int i = 0; i < COUNT(moved); i++)
        if (!ext_add(metal, moved[i], PyObject_GetAttrString(core, moved[i])))
            return false;
    return true;
}

bool ext_add_absent(PyObject *core) {
    PyObject *metal = ext_submodule(core, "metal", "Apple's Metal, which is not here.");
    PyObject *cuda = ext_submodule(core, "cuda", "NVIDIA GPUs.");
    return metal && cuda && PyModule_AddFunctions(metal, metal_functions) == 0 && add_moved(core, metal) &&
           PyModule_AddFunctions(cuda, cuda_functions) == 0;
}
