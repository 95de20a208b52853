/* The limiter in process, as a type: sluice.LocalLimiter is its subclass.
 *
 * Two kinds wait for a process that is stopped with a lock in hand. One of threads waits in its call, without the GIL:
 * as the library does or, where a loop of this process has the same store open, by asking again. One of a loop waits
 * nowhere: it answers None, and is asked again by last() when its time is over.
 *
 * Each call is counted in `active`, and close() while one is under way only marks the limiter: the last one frees it.
 * For a call may run code of Python: of the caller's types, of finalizers wherever it makes an object, of other threads
 * meanwhile. Any of it may close the limiter.
 *
 * The GIL is given up where a call may wait for another process: by stores that are shared, or in a file. A private
 * store is waited for by nobody, and giving up the GIL would cost a third of a check. */
#include "bindings/python/src/core.h"

#include "base/out.h"

#include <stdlib.h>
#include <time.h>

enum { AGAIN_MS = 2, TIMEOUT_MS_MAX = 600000 };
enum { ON_ERROR_THROW, ON_ERROR_ALLOW, ON_ERROR_DENY };

struct limiter {
	PyObject_HEAD
	struct sl_limiter *limiter; /* NULL: not opened, or closed */
	const struct core *core;    /* the module's, which is held by `module` */
	PyObject *module, *clock;   /* clock NULL: the store's own */
	uint32_t active;            /* calls under way */
	bool may_wait, closing;
	bool parks; /* it is a loop's: None where it is to be asked again */
	uint8_t on_error;
	uint32_t timeout_ms; /* how long it asks again itself */
};

static struct limiter *self_of(PyObject *self) {
	return (struct limiter *)self;
}

static bool is_open(struct limiter *l) {
	if (l->limiter != NULL && !l->closing)
		return true;
	if (l->core == NULL)
		PyErr_SetString(PyExc_ValueError, "the limiter was not opened");
	else
		raise_as(l->core, "closed", "the limiter is closed");
	return false;
}

static void end(struct limiter *l) {
	struct sl_limiter *limiter = l->limiter;
	l->limiter = NULL;
	if (limiter == NULL)
		return;
	Py_BEGIN_ALLOW_THREADS
	sl_limiter_close(limiter);
	Py_END_ALLOW_THREADS
}

/* Begins a call: until it ends, `l->limiter` stays. False with an exception set: it is closed. */
static bool enter(struct limiter *l) {
	if (!is_open(l))
		return false;
	l->active++;
	return true;
}

static void leave(struct limiter *l) {
	if (--l->active == 0 && l->closing)
		end(l);
}

/* Gives up the GIL, if it may wait. */
static PyThreadState *give_up(const struct limiter *l) {
	return l->may_wait ? PyEval_SaveThread() : NULL;
}

static void take_back(PyThreadState *thread) {
	if (thread != NULL)
		PyEval_RestoreThread(thread);
}

/* ---- a plain check ----------------------------------------------------------------------------------------------- */

/* The cost, by position or by name; false: there is more to it. */
static bool read_cost(const struct core *core, PyObject *const *args, Py_ssize_t count, PyObject *names,
                      uint32_t *cost) {
	*cost = 1;
	if (count == 2 && names == NULL)
		return true;
	if (count == 2 ? PyTuple_Size(names) != 1 || PyTuple_GetItem(names, 0) != core->cost_word
	               : count != 3 || names != NULL)
		return false;
	if (!PyLong_Check(args[2]))
		return false;
	long long number = PyLong_AsLongLong(args[2]);
	if (number < 0 || number > UINT32_MAX) {
		PyErr_Clear();
		return false;
	}
	*cost = (uint32_t)number;
	return true;
}

/* A list of texts as a tuple, which is the caller's to release, and what they are; NULL: the long way, or an exception
 * is set. */
static PyObject *read_set(struct limiter *l, PyObject *object, struct sl_set *set) {
	struct sluice_bytes texts[SLUICE_ITEMS_MAX];
	PyObject *tuple = PyTuple_Check(object) || PyList_Check(object) ? PySequence_Tuple(object) : NULL;
	Py_ssize_t count = tuple == NULL ? 0 : PyTuple_Size(tuple);
	bool good = count >= 1 && count <= SLUICE_ITEMS_MAX;
	for (Py_ssize_t i = 0; good && i < count; i++) {
		PyObject *text = PyTuple_GetItem(tuple, i);
		good = PyUnicode_Check(text) && bytes_of(text, &texts[i]);
	}
	if (good && is_open(l) && sl_limiter_set(l->limiter, texts, (uint32_t)count, set)) /* reading may have closed it */
		return tuple;
	Py_XDECREF(tuple);
	return NULL;
}

/* Several limits of one key, found before the GIL is given up. */
static PyObject *check_set(struct limiter *l, PyObject *limits, struct sluice_bytes key, uint32_t cost) {
	struct sluice_decision decision;
	struct sl_set set;
	PyObject *result = NULL, *tuple = read_set(l, limits, &set);
	if (tuple == NULL)
		return NULL;
	PyThreadState *thread = give_up(l);
	sluice_err err = sl_limiter_check_set(l->limiter, &set, key, cost, &decision);
	take_back(thread);
	if (err == SLUICE_OK)
		result = result_of(l->core, &decision, decision.allowed ? cost : 0, tuple);
	Py_DECREF(tuple);
	return result;
}

/* Plain limits, and the store's clock: decided without a word. NULL without an exception: the long way. */
static PyObject *check_plain(struct limiter *l, PyObject *const *args, Py_ssize_t count, PyObject *names) {
	struct sluice_bytes key, limit;
	struct sluice_decision decision;
	uint32_t cost;
	if (!read_cost(l->core, args, count, names, &cost) || !bytes_of(args[0], &key))
		return NULL;
	if (!PyUnicode_Check(args[1]))
		return check_set(l, args[1], key, cost);
	if (!bytes_of(args[1], &limit))
		return NULL;
	PyThreadState *thread = give_up(l);
	sluice_err err = sl_limiter_check(l->limiter, key, limit, cost, &decision);
	take_back(thread);
	return err == SLUICE_OK ? result_of(l->core, &decision, decision.allowed ? cost : 0, args[1]) : NULL;
}

/* ---- the full form ----------------------------------------------------------------------------------------------- */

static bool is_outage(enum sl_failure_kind kind) {
	return kind == SL_FAILED_BUSY || kind == SL_FAILED_FULL || kind == SL_FAILED_AWAY;
}

static bool decides(enum sl_operation operation) {
	return operation != SL_OP_RESET && operation != SL_OP_RELEASE && operation != SL_OP_RENEW &&
	       operation != SL_OP_COMMIT && operation != SL_OP_REFUND;
}

static PyObject *failed(struct limiter *l, const struct asked *asked, const struct sl_failure *failure) {
	if (l->parks && failure->again && !asked->asked.last) {
		Py_INCREF(Py_None);
		return Py_None;
	}
	if (l->on_error == ON_ERROR_THROW || !is_outage(failure->kind) || !decides(asked->asked.operation))
		return raise_failure(l->core, failure);
	return result_fallback(l->core, l->on_error == ON_ERROR_ALLOW, asked->limits_object, asked->asked.each);
}

static PyObject *told_of(struct limiter *l, const struct asked *asked, const struct sl_told *told) {
	enum sl_operation operation = asked->asked.operation;
	if (operation == SL_OP_RESET || operation == SL_OP_RELEASE || operation == SL_OP_RENEW)
		return PyLong_FromUnsignedLong(told->count);
	return result_of_told(l->core, told, asked->limits_object, asked->asked.each);
}

/* Without the GIL, if it may wait. Another limiter of this process may be a loop: then nobody waits in the library. */
static bool decide_patiently(const struct limiter *l, struct sl_asked *asked, struct sl_told *told,
                             struct sl_failure *failure) {
	const struct timespec pause = {.tv_nsec = AGAIN_MS * 1000000};
	for (uint32_t waited_ms = 0;; waited_ms += AGAIN_MS) {
		asked->last |= !l->parks && waited_ms >= l->timeout_ms;
		if (sl_limiter_decide(l->limiter, asked, told, failure))
			return true;
		if (l->parks || asked->last || !failure->again)
			return false;
		(void)nanosleep(&pause, NULL);
	}
}

static PyObject *decide(struct limiter *l, struct asked *asked) {
	struct sl_told told;
	struct sl_failure failure;
	bool good;
	if (l->clock != NULL && (asked->asked.now = instant_of(l->core, l->clock)) == 0)
		return NULL;
	if (!is_open(l)) /* reading, or the clock, may have closed it */
		return NULL;
	PyThreadState *thread = give_up(l);
	good = decide_patiently(l, &asked->asked, &told, &failure);
	take_back(thread);
	PyObject *result = good ? told_of(l, asked, &told) : failed(l, asked, &failure);
	if (good)
		sl_told_end(l->limiter, &told);
	return result;
}

static PyObject *ask(PyObject *self, enum sl_operation operation, PyObject *const *args, Py_ssize_t count,
                     PyObject *names, bool last) {
	struct limiter *l = self_of(self);
	PyObject *result = NULL;
	struct asked *asked = PyMem_Malloc(sizeof *asked);
	if (asked == NULL)
		return PyErr_NoMemory();
	if (!enter(l)) {
		PyMem_Free(asked);
		return NULL;
	}
	if (asked_read(asked, l->core, operation, args, count, names)) {
		asked->asked.last = last;
		result = decide(l, asked);
	}
	asked_end(asked);
	PyMem_Free(asked);
	leave(l);
	return result;
}

static PyObject *limiter_check(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) {
	struct limiter *l = self_of(self);
	if (l->clock == NULL && l->limiter != NULL && !l->closing && count >= 2) {
		l->active++;
		PyObject *result = check_plain(l, args, count, names);
		leave(l);
		if (result != NULL || PyErr_Occurred() != NULL)
			return result;
	}
	return ask(self, SL_OP_CHECK, args, count, names, false);
}

PyObject *core_last(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
	struct sluice_bytes name;
	enum sl_operation operation = SL_OPERATIONS;
	if (count >= 2 && PyObject_TypeCheck(args[0], core_of(module)->limiter) && bytes_of(args[1], &name))
		operation = operation_of(name.data);
	if (operation != SL_OPERATIONS)
		return ask(args[0], operation, args + 2, count - 2, names, true);
	PyErr_SetString(PyExc_TypeError, "last() takes a limiter, an operation, and its arguments");
	return NULL;
}

#define ASKS(name, operation)                                                                                   \
	static PyObject *limiter_##name(PyObject *self, PyObject *const *args, Py_ssize_t count, PyObject *names) { \
		return ask(self, operation, args, count, names, false);                                                 \
	}
ASKS(peek, SL_OP_PEEK)
ASKS(refund, SL_OP_REFUND)
ASKS(reset, SL_OP_RESET)
ASKS(acquire, SL_OP_ACQUIRE)
ASKS(release, SL_OP_RELEASE)
ASKS(renew, SL_OP_RENEW)
ASKS(reserve, SL_OP_RESERVE)
ASKS(commit, SL_OP_COMMIT)
ASKS(admit, SL_OP_ADMIT)

/* ---- beginning, policy and end ----------------------------------------------------------------------------------- */

static PyObject *limiter_reload(PyObject *self, PyObject *args, PyObject *names) {
	char *words[] = {"policy", NULL};
	struct limiter *l = self_of(self);
	struct sluice_bytes text;
	struct sl_failure failure;
	PyObject *policy;
	if (!PyArg_ParseTupleAndKeywords(args, names, "O:reload", words, &policy))
		return NULL;
	if (!bytes_of(policy, &text)) {
		PyErr_Format(PyExc_TypeError, "policy: expected YAML or a path, found %R", policy);
		return NULL;
	}
	if (!enter(l))
		return NULL;
	PyThreadState *thread = PyEval_SaveThread(); /* it reads a file */
	bool good = sl_limiter_reload(l->limiter, text, &failure);
	take_back(thread);
	leave(l);
	if (!good)
		return raise_failure(l->core, &failure);
	Py_INCREF(Py_None);
	return Py_None;
}

/* [(id, cost, ends_after)] */
static PyObject *list_of(const struct sluice_holder *holders, uint32_t count) {
	PyObject *list = PyList_New(count);
	for (uint32_t i = 0; list != NULL && i < count; i++) {
		char id[17];
		sl_hex_text(id, holders[i].id);
		PyObject *one = Py_BuildValue("(sIL)", id, (unsigned)holders[i].cost,
		                              (long long)sl_ns_to_ms_ceil(holders[i].ends_after_ns));
		if (one == NULL)
			Py_CLEAR(list);
		else
			PyList_SetItem(list, i, one);
	}
	return list;
}

static PyObject *limiter_holders(PyObject *self, PyObject *args, PyObject *names) {
	char *words[] = {"key", "limit", NULL};
	struct limiter *l = self_of(self);
	struct sluice_bytes key_text, limit_text;
	struct sluice_holder *holders;
	struct sl_failure failure;
	PyObject *key, *limit;
	sluice_ns now = 0;
	uint32_t count;
	if (!PyArg_ParseTupleAndKeywords(args, names, "OO:holders", words, &key, &limit) ||
	    !is_open(l)) /* closed: told before what is wrong */
		return NULL;
	if (!bytes_of(key, &key_text) || !bytes_of(limit, &limit_text)) {
		PyErr_SetString(PyExc_TypeError, "holders(): expected a key and a limit, str or bytes");
		return NULL;
	}
	if ((l->clock != NULL && (now = instant_of(l->core, l->clock)) == 0) || !enter(l))
		return NULL;
	PyThreadState *thread = PyEval_SaveThread();
	bool good = sl_limiter_holders(l->limiter, key_text, limit_text, now, &holders, &count, &failure);
	take_back(thread);
	leave(l);
	PyObject *list = good ? list_of(holders, count) : raise_failure(l->core, &failure);
	if (good)
		free(holders);
	return list;
}

/* How many counters the store has that count: it is walked for that. */
static PyObject *limiter_counters(PyObject *self, PyObject *unused) {
	struct limiter *l = self_of(self);
	struct sl_failure failure;
	uint64_t count;
	(void)unused;
	if (!enter(l))
		return NULL;
	PyThreadState *thread = PyEval_SaveThread();
	bool good = sl_limiter_counters(l->limiter, &count, &failure);
	take_back(thread);
	leave(l);
	return good ? PyLong_FromUnsignedLongLong(count) : raise_failure(l->core, &failure);
}

static PyObject *limiter_close(PyObject *self, PyObject *unused) {
	struct limiter *l = self_of(self);
	(void)unused;
	l->closing = true;
	if (l->active == 0)
		end(l);
	Py_INCREF(Py_None);
	return Py_None;
}

static bool read_text(PyObject *object, const char *what, struct sluice_bytes *text) {
	*text = (struct sluice_bytes){NULL, 0};
	if (object == Py_None || bytes_of(object, text))
		return true;
	PyErr_Format(PyExc_TypeError, "%s: expected str, found %R", what, object);
	return false;
}

PyObject *core_open(PyObject *module, PyObject *args) {
	struct core *core = core_of(module);
	PyObject *self, *store, *memory, *policy, *clock;
	int on_error, parks;
	double timeout_ms;
	struct sl_limiter_options options;
	struct sl_limiter *limiter = NULL;
	struct sl_failure failure;
	bool good;
	if (!PyArg_ParseTuple(args, "O!OOOOidp", core->limiter, &self, &store, &memory, &policy, &clock, &on_error,
	                      &timeout_ms, &parks) ||
	    !read_text(store, "store", &options.store) || !read_text(memory, "memory", &options.memory) ||
	    !read_text(policy, "policy", &options.policy))
		return NULL;
	struct limiter *l = self_of(self);
	if (l->limiter != NULL || l->closing) {
		PyErr_SetString(PyExc_ValueError, "the limiter is open");
		return NULL;
	}
	Py_BEGIN_ALLOW_THREADS
	good = sl_limiter_open(&limiter, &options, &failure);
	Py_END_ALLOW_THREADS
	if (!good)
		return raise_failure(core, &failure);
	if (l->limiter != NULL || l->closing) { /* opened, or closed, by another thread meanwhile */
		sl_limiter_close(limiter);
		PyErr_SetString(PyExc_ValueError, "the limiter is open");
		return NULL;
	}
	l->core = core;
	l->module = module;
	Py_INCREF(module);
	l->clock = clock == Py_None ? NULL : clock;
	Py_XINCREF(l->clock);
	l->may_wait = sl_limiter_may_wait(limiter);
	l->on_error = (uint8_t)on_error;
	l->timeout_ms = timeout_ms > 0 ? timeout_ms < TIMEOUT_MS_MAX ? (uint32_t)timeout_ms : TIMEOUT_MS_MAX : 0;
	l->parks = parks != 0;
	if (l->parks)
		sl_limiter_park(limiter);
	l->limiter = limiter;
	Py_INCREF(Py_None);
	return Py_None;
}

/* ---- the type ---------------------------------------------------------------------------------------------------- */

static int limiter_traverse(PyObject *self, visitproc visit, void *arg) {
	struct limiter *l = self_of(self);
	Py_VISIT(l->module);
	Py_VISIT(l->clock);
#if PY_VERSION_HEX >= 0x03090000
	Py_VISIT(Py_TYPE(self));
#endif
	return 0;
}

static int limiter_clear(PyObject *self) {
	struct limiter *l = self_of(self);
	Py_CLEAR(l->clock); /* the module stays: `core` is its */
	return 0;
}

static void limiter_dealloc(PyObject *self) {
	struct limiter *l = self_of(self);
	PyTypeObject *type = Py_TYPE(self);
	freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
	PyObject_GC_UnTrack(self);
	sl_limiter_close(l->limiter);
	Py_XDECREF(l->clock);
	Py_XDECREF(l->module);
	release(self);
	Py_DECREF(type);
}

#define METHOD(name, doc) \
	{#name, (PyCFunction)(void (*)(void))limiter_##name, METH_FASTCALL | METH_KEYWORDS, doc}
#define BY_NAME(name, function, doc) {name, (PyCFunction)(void (*)(void))function, METH_VARARGS | METH_KEYWORDS, doc}
static PyMethodDef methods[] = {
	METHOD(check, "check(key, limits, cost=1, *, id, member, upto, next, each) -> Result: decides, and charges"),
	METHOD(peek, "peek(key, limits, cost=1, *, member, upto, next, each) -> Result: decides, charging nothing"),
	METHOD(refund, "refund(key, limits, cost=1, *, member, next, each) -> Result: gives back the newest charges"),
	METHOD(reset, "reset(key, limits) -> int: forgets counters, and says how many there were"),
	METHOD(acquire, "acquire(key, limits, cost=1, *, id, member, next, each) -> Result: takes a lease"),
	METHOD(release, "release(key, limits, id) -> int: of how many counters the lease was ended"),
	METHOD(renew, "renew(key, limits, id) -> int: of how many it lasts a whole T from now"),
	METHOD(reserve, "reserve(key, limits, cost=1, *, ttl=60000, id, next, each) -> Result: charges an estimate"),
	METHOD(commit, "commit(key, limits, id, cost, *, next, each) -> Result: the true cost of a reservation"),
	METHOD(admit, "admit(attributes, cost=1, *, id, member, upto, next, each) -> Result: as the policy says"),
	BY_NAME("reload", limiter_reload, "reload(policy): puts another policy, YAML or a path, in its place"),
	BY_NAME("holders", limiter_holders, "holders(key, limit) -> list: (id, cost, ends_after) of each lease"),
	{"counters", limiter_counters, METH_NOARGS, "counters(): how many counters count, of a store's O(size)"},
	{"close", limiter_close, METH_NOARGS, "close(): gives the store back"},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "A store of this host, with the limits that were asked of it"},
	{Py_tp_dealloc, limiter_dealloc},
	{Py_tp_traverse, limiter_traverse},
	{Py_tp_clear, limiter_clear},
	{Py_tp_methods, methods},
	{0, NULL},
};

PyType_Spec limiter_spec = {"sluice._core.Limiter", sizeof(struct limiter), 0,
                            Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
