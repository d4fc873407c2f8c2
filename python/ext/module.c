// module.c - the module object zellige.core and its submodules.

#include "ext.h"

PyDoc_STRVAR(core_doc, "Lazy arrays with the API of mlx.core, on every device of Zellige.");

bool ext_add(PyObject *module, const char *name, PyObject *object) {
    int failed = object ? PyModule_AddObjectRef(module, name, object) : -1;
    Py_XDECREF(object);
    return failed == 0;
}

PyObject *ext_submodule(PyObject *core, const char *name, const char *doc) {
    PyObject *module = PyDict_GetItemString(PyModule_GetDict(core), name);
    if (!module) {
        PyObject *full = PyUnicode_FromFormat("%s.%s", PyModule_GetName(core), name);
        module = full ? PyImport_AddModuleObject(full) : NULL; // borrowed from sys.modules
        Py_XDECREF(full);
        if (!module || PyModule_AddObjectRef(core, name, module))
            return NULL;
    }
    return doc && PyModule_SetDocString(module, doc) ? NULL : module;
}

static ext_adder *const parts[] = {
    ext_add_errors,      ext_add_dtypes,    ext_add_devices,     ext_add_arrays,  ext_add_indexing,
    ext_add_format,      ext_add_constants, ext_add_memory,      ext_add_ops,     ext_add_random,
    ext_add_interchange, ext_add_trees,     ext_add_shaped,      ext_add_aliases, ext_add_transforms,
    ext_add_export,      ext_add_absent,    ext_add_distributed, ext_add_files,   ext_add_tile,
    ext_add_profile,     ext_add_language,
};

static int fill(PyObject *core) {
    for (int i = 0; i < COUNT(parts); i++)
        if (!parts[i](core))
            return -1;
    return 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)fill},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#ifdef Py_mod_gil
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "zellige.core", .m_doc = core_doc, .m_slots = slots};

PyMODINIT_FUNC PyInit_core(void);
PyMODINIT_FUNC PyInit_core(void) {
    return PyModuleDef_Init(&definition);
}
