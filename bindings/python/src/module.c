/* The module: its types, made anew for each interpreter, and its functions. */
#include "bindings/python/src/core.h"

struct core *core_of(PyObject *module) {
	return PyModule_GetState(module);
}

PyObject *refuse_new(PyTypeObject *type, PyObject *args, PyObject *names) {
	(void)type;
	(void)args;
	(void)names;
	PyErr_SetString(PyExc_TypeError, "made by a limiter only");
	return NULL;
}

/* failure_kind(text): the word of an error that a server answered. */
static PyObject *core_failure_kind(PyObject *module, PyObject *text) {
	struct sluice_bytes bytes;
	(void)module;
	if (!bytes_of(text, &bytes)) {
		PyErr_SetString(PyExc_TypeError, "expected a text");
		return NULL;
	}
	return PyUnicode_FromString(sl_failure_name(sl_failure_kind_of(bytes)));
}

/* make_id(): 16 hex digits that nobody else has. */
static PyObject *core_make_id(PyObject *module, PyObject *unused) {
	char text[17];
	(void)module;
	(void)unused;
	sluice_make_id(text);
	return PyUnicode_FromString(text);
}

/* forget(name): removes the name of shared memory. */
static PyObject *core_forget(PyObject *module, PyObject *name) {
	struct sluice_bytes bytes;
	struct sluice_error error = {.text = ""};
	struct sl_failure failure = {.kind = SL_FAILED_SYSTEM};
	if (!PyUnicode_Check(name) || !bytes_of(name, &bytes) || strlen(bytes.data) != bytes.len) {
		PyErr_SetString(PyExc_TypeError, "expected a name");
		return NULL;
	}
	sluice_err err = sluice_store_forget(bytes.data, &error);
	if (err != SLUICE_OK) {
		failure.kind = err == SLUICE_E_NONE ? SL_FAILED_UNKNOWN : SL_FAILED_SYSTEM;
		memcpy(failure.text, error.text, sizeof error.text);
		return raise_failure(core_of(module), &failure);
	}
	Py_INCREF(Py_None);
	return Py_None;
}

static PyMethodDef functions[] = {
	{"open", core_open, METH_VARARGS, NULL},
	{"last", (PyCFunction)(void (*)(void))core_last, METH_FASTCALL | METH_KEYWORDS, NULL},
	{"result", core_result, METH_VARARGS, NULL},
	{"merge", core_merge, METH_VARARGS, NULL},
	{"told", core_told, METH_VARARGS, NULL},
	{"fallback", core_fallback, METH_VARARGS, NULL},
	{"encode", (PyCFunction)(void (*)(void))core_encode, METH_FASTCALL | METH_KEYWORDS, NULL},
	{"ticket", (PyCFunction)(void (*)(void))core_ticket, METH_FASTCALL | METH_KEYWORDS, NULL},
	{"headers", core_headers, METH_VARARGS, NULL},
	{"path", core_path, METH_O, NULL},
	{"proxies", core_proxies, METH_VARARGS, NULL},
	{"failure_kind", core_failure_kind, METH_O, NULL},
	{"make_id", core_make_id, METH_NOARGS, NULL},
	{"forget", core_forget, METH_O, NULL},
	{NULL, NULL, 0, NULL},
};

static bool add_type(PyObject *module, const char *name, PyType_Spec *spec, PyTypeObject **type) {
	*type = (PyTypeObject *)PyType_FromSpec(spec);
	return *type != NULL && PyObject_SetAttrString(module, name, (PyObject *)*type) == 0;
}

static int begin(PyObject *module) {
	struct core *core = core_of(module);
	PyObject *errors = PyImport_ImportModule("sluice._errors");
	if (errors == NULL)
		return -1;
	core->error = PyObject_GetAttrString(errors, "SluiceError");
	Py_DECREF(errors);
	core->cost_word = PyUnicode_InternFromString("cost");
	if (core->error == NULL || core->cost_word == NULL || !add_type(module, "Result", &result_spec, &core->result) ||
	    !add_type(module, "Limiter", &limiter_spec, &core->limiter) ||
	    !add_type(module, "Proxies", &proxies_spec, &core->proxies) ||
	    PyModule_AddStringConstant(module, "version", SLUICE_VERSION) != 0)
		return -1;
	return 0;
}

static int traverse(PyObject *module, visitproc visit, void *arg) {
	struct core *core = core_of(module);
	Py_VISIT(core->result);
	Py_VISIT(core->limiter);
	Py_VISIT(core->proxies);
	Py_VISIT(core->error);
	return 0;
}

static int clear(PyObject *module) {
	struct core *core = core_of(module);
	Py_CLEAR(core->result);
	Py_CLEAR(core->limiter);
	Py_CLEAR(core->proxies);
	Py_CLEAR(core->error);
	Py_CLEAR(core->cost_word);
	return 0;
}

static void end(void *module) {
	(void)clear(module);
}

static PyModuleDef_Slot slots[] = {
	{Py_mod_exec, begin},
#ifdef Py_mod_multiple_interpreters /* from the limited API of 3.12 on */
	{Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED},
#endif
	{0, NULL},
};

static struct PyModuleDef module_def = {
	PyModuleDef_HEAD_INIT, "sluice._core", "The limiter in C", sizeof(struct core), functions, slots, traverse, clear,
	end,
};

PyMODINIT_FUNC PyInit__core(void);
PyMODINIT_FUNC PyInit__core(void) {
	return PyModuleDef_Init(&module_def);
}
