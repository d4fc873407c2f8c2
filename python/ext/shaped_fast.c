// shaped_fast.c - functions of zellige.core.fast that are not one op: attention. Metal's kernels are in
// metal_kernel.c.

#include "shaped.h"

// Attention -------------------------------------------------------------------------------------------------

enum { Q, K, V, SCALE, MASK, SINKS, FORCE_FUSED };

static bool read_mask(PyObject *o, zl_array *mask, const char **mode) {
    *mask = NULL;
    *mode = NULL;
    if (!shaped_given(o) || !PyUnicode_Check(o))
        return shaped_array(o, mask);
    if (PyUnicode_CompareWithASCIIString(o, "causal") == 0) {
        *mode = "causal";
        return true;
    }
    PyErr_Format(PyExc_ValueError, "scaled_dot_product_attention(): mask %R: 'causal' or an array is needed",
                 o);
    return false;
}

static PyObject *attention_work(const struct shaped_call *c) {
    zl_array q, k, v, mask, sinks;
    const char *mode;
    double scale;
    if (!(q = ext_array_held(c->named[Q])) || !(k = ext_array_held(c->named[K])) ||
        !(v = ext_array_held(c->named[V])) || !ext_to_double(c->named[SCALE], &scale) ||
        !read_mask(c->named[MASK], &mask, &mode) || !shaped_array(c->named[SINKS], &sinks))
        return NULL;
    return ext_wrap(zl_fast_scaled_dot_product_attention(q, k, v, scale, mask, sinks, mode));
}

static PyObject *attention(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m;
    struct shaped_call c;
    static const char *const known[] = {"q", "k", "v", "scale", "mask", "sinks", "force_fused", NULL};
    if (!shaped_read(&c, "scaled_dot_product_attention", known, 3, false, args, n, names))
        return NULL;
    for (int i = Q; i <= SCALE; i++)
        if (!shaped_need(&c, i, known[i]))
            return NULL;
    return shaped_run(&c, attention_work);
}

// Kernels of other systems ----------------------------------------------------------------------------------

static PyObject *precompiled(PyObject *m, PyObject *const *args, Py_ssize_t n, PyObject *names) {
    (void)m, (void)args, (void)n, (void)names;
    return PyErr_Format(
        PyExc_RuntimeError,
        "[precompiled_cuda_kernel] Kernels are compiled here: use fast.cuda_kernel, or fast.cpu_kernel "
        "for kernels in C. doc/custom-kernels.md explains both.");
}

PyMethodDef shaped_fast[] = {
    SHAPED_ROW("scaled_dot_product_attention", attention,
               "scaled_dot_product_attention(q, k, v, *, scale, mask=None, sinks=None, force_fused=False, "
               "stream=None)\n"
               "--\n\nsoftmax(scale * q k^T + mask) v for each head; the mask is an array or 'causal'."),
    {"cpu_kernel", (PyCFunction)(void (*)(void))shaped_cpu_kernel, METH_VARARGS | METH_KEYWORDS,
     "cpu_kernel(name, input_names, output_names, source, header='', ensure_row_contiguous=True)\n--\n\n"
     "A kernel in C, compiled when it is first evaluated: source is the body of a function that runs for "
     "each position "
     "of a grid. Called like MLX's metal_kernel(...)."},
    {"metal_kernel", (PyCFunction)(void (*)(void))shaped_metal_kernel, METH_VARARGS | METH_KEYWORDS,
     "metal_kernel(name, input_names, output_names, source, header='', ensure_row_contiguous=True, "
     "atomic_outputs=False, "
     "compile_options=None)\n--\n\nA kernel in Metal's language. No device here runs it: it can be called in "
     "functions "
     "that are exported. cpu_kernel and cuda_kernel make kernels that run here."},
    {"cuda_kernel", (PyCFunction)(void (*)(void))shaped_cuda_kernel, METH_VARARGS | METH_KEYWORDS,
     "cuda_kernel(name, input_names, output_names, source, header='', ensure_row_contiguous=True, "
     "shared_memory=0)\n--\n\n"
     "A kernel in CUDA C++ for NVIDIA GPUs, compiled when it is first evaluated: source is the body of a "
     "__global__ function."},
    SHAPED_ROW("precompiled_cuda_kernel", precompiled,
               "precompiled_cuda_kernel(*args, **kwargs)\n--\n\n"
               "Kernels that are compiled already, which are not taken here."),
    {0},
};
