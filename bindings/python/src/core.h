/* sluice._core: the limiter of bindings/common as types of Python. It converts values, and decides when the GIL is
 * given up; no rule of limits is here.
 *
 * The limited API of Python 3.9: one library for every Python since (abi3). Two things that headers offer to it only
 * since 3.10 are exported by 3.9 all the same, with the same meaning: METH_FASTCALL, and PyUnicode_AsUTF8AndSize().
 * Without them a check would take twice as long.
 *
 * Each interpreter has a module of its own (multi-phase init), and nothing here is static but constants. */
#ifndef SLUICE_PYTHON_CORE_H
#define SLUICE_PYTHON_CORE_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include "bindings/common/handle.h"

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif
PyAPI_FUNC(const char *) PyUnicode_AsUTF8AndSize(PyObject *unicode, Py_ssize_t *size);

/* What an interpreter's module keeps. */
struct core {
	PyTypeObject *result, *limiter, *proxies;
	PyObject *error;     /* sluice.SluiceError */
	PyObject *cost_word; /* "cost", interned */
};

struct core *core_of(PyObject *module);

/* ---- results ----------------------------------------------------------------------------------------------------- */

/* A decision as a Python object. Objects are owned by it; NULL: None. */
struct result {
	PyObject_HEAD
	struct sluice_decision decision;
	uint32_t granted;
	bool repeated, failed_open, observed;
	PyObject *limits; /* what was asked, of which the one that decided is told by its index */
	PyObject *name;   /* of the policy's limit that decided: stands before `limits` */
	PyObject *id, *each, *rule;
};

extern PyType_Spec result_spec;

/* A decision about `limits`, which is borrowed. NULL with an exception set. */
PyObject *result_of(const struct core *core, const struct sluice_decision *decision, uint32_t granted,
                    PyObject *limits);

/* The same of all that was told; of each limit, too, where `each` was asked for. */
PyObject *result_of_told(const struct core *core, const struct sl_told *told, PyObject *limits, bool each);

/* result(limits, name, numbers, granted, repeated, id, failed_open, each): what a server answered. */
PyObject *core_result(PyObject *module, PyObject *args);

/* told(name, rule, numbers, index, observed): of a server's policy, one limit's own. */
PyObject *core_told(PyObject *module, PyObject *args);

/* merge(limits, numbers of each, granted, repeated, id, next, each): the same of a server that tells of each limit, of
 * which the caller wants to know `each` or `next`. */
PyObject *core_merge(PyObject *module, PyObject *args);

/* ---- what is asked ----------------------------------------------------------------------------------------------- */

/* Arguments of Python as what is asked; what it points to lives as long as the arguments and `kept` do. */
struct asked {
	struct sl_asked asked;
	struct sl_asked_limit limits[SL_ASKED_LIMITS_MAX];
	struct sluice_attribute attributes[SL_ASKED_WORDS_MAX / 2];
	PyObject *limits_object; /* borrowed */
	PyObject *kept[2];       /* copies of lists, which may change while the GIL is given up */
	uint32_t given;          /* a bit for each flag that was asked for: ASKED_* */
};
enum { ASKED_UPTO = 1, ASKED_NEXT = 2, ASKED_EACH = 4 };

/* Reads the arguments of an operation. False with an exception set. Ends with asked_end() in either case. */
bool asked_read(struct asked *asked, const struct core *core, enum sl_operation operation, PyObject *const *args,
                Py_ssize_t count, PyObject *names);
void asked_end(struct asked *asked);

/* The bytes of a str (as UTF-8) or bytes object; false, no exception set, for others. Borrowed. */
bool bytes_of(PyObject *object, struct sluice_bytes *bytes);

/* The operation of a method's name; SL_OPERATIONS for none. */
enum sl_operation operation_of(const char *name);

/* Raises SluiceError(code, text); NULL. */
PyObject *raise_failure(const struct core *core, const struct sl_failure *failure);

/* The same, by the word of a code. */
PyObject *raise_as(const struct core *core, const char *code, const char *text);

/* What `clock` says, as Unix ns, at least 1; 0 with an exception set. */
sluice_ns instant_of(const struct core *core, PyObject *clock);

/* encode(operation, clock, ...): the command as bytes for a server, and which words it says. */
PyObject *core_encode(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* ticket(key, limits, id): the ticket of a reservation under an id of the caller's. */
PyObject *core_ticket(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* The tp_new of what callers don't make. */
PyObject *refuse_new(PyTypeObject *type, PyObject *args, PyObject *names);

/* ---- types and functions ----------------------------------------------------------------------------------------- */

extern PyType_Spec limiter_spec, proxies_spec;

/* open(limiter, store, memory, policy, clock, on_error, timeout, parks) */
PyObject *core_open(PyObject *module, PyObject *args);

/* last(limiter, operation, ..): as the method, where a loop's limiter has waited for long enough: never None. */
PyObject *core_last(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names);

/* fallback(on_error, limits): what a request gets that can't be decided; "allow" or "deny" */
PyObject *core_fallback(PyObject *module, PyObject *args);
PyObject *result_fallback(const struct core *core, bool allow, PyObject *limits, bool each);

/* headers(forms, result, now_ms): lines of RateLimit headers as [(name, value)] */
PyObject *core_headers(PyObject *module, PyObject *args);

/* path(target): the path of a request's target, bytes, as it counts; in the text each character is a byte */
PyObject *core_path(PyObject *module, PyObject *target);

/* proxies(yaml): whom a policy with trusted-proxies and ipv6-prefix trusts */
PyObject *core_proxies(PyObject *module, PyObject *args);

#endif
