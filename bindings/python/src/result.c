/* Result: a decision, whose waits become milliseconds when they are looked at. An object without a cycle, so not of the
 * collector's: one is made for each check. */
#include "bindings/python/src/core.h"

#include "proto/answer.h"

#include "base/bytes.h"

static struct result *self_of(PyObject *self) {
	return (struct result *)self;
}

static struct result *new_result(const struct core *core, const struct sluice_decision *decision, uint32_t granted,
                                 PyObject *limits) {
	struct result *made = PyObject_New(struct result, core->result);
	if (made == NULL)
		return NULL;
	made->decision = *decision;
	made->granted = granted;
	made->repeated = made->failed_open = made->observed = false;
	made->name = made->id = made->each = made->rule = NULL;
	made->limits = limits;
	Py_XINCREF(limits);
	return made;
}

PyObject *result_of(const struct core *core, const struct sluice_decision *decision, uint32_t granted,
                    PyObject *limits) {
	return (PyObject *)new_result(core, decision, granted, limits);
}

static void result_dealloc(PyObject *self) {
	struct result *r = self_of(self);
	PyTypeObject *type = Py_TYPE(self);
	Py_XDECREF(r->limits);
	Py_XDECREF(r->name);
	Py_XDECREF(r->id);
	Py_XDECREF(r->each);
	Py_XDECREF(r->rule);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* ---- what it tells ----------------------------------------------------------------------------------------------- */

static PyObject *ms(sluice_ns wait) {
	return PyLong_FromLongLong(sl_ns_to_ms_ceil(wait));
}

static PyObject *get_allowed(PyObject *self, void *unused) {
	(void)unused;
	return PyBool_FromLong(self_of(self)->decision.allowed);
}

static PyObject *get_remaining(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromUnsignedLong(self_of(self)->decision.remaining);
}

static PyObject *get_quota(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromUnsignedLongLong(self_of(self)->decision.quota);
}

static PyObject *get_retry_after(PyObject *self, void *unused) {
	(void)unused;
	return ms(self_of(self)->decision.retry_after_ns);
}

static PyObject *get_reset_after(PyObject *self, void *unused) {
	(void)unused;
	return ms(self_of(self)->decision.reset_after_ns);
}

static PyObject *get_delay(PyObject *self, void *unused) {
	(void)unused;
	return ms(self_of(self)->decision.delay_ns);
}

static PyObject *get_next_after(PyObject *self, void *unused) {
	(void)unused;
	return ms(self_of(self)->decision.next_after_ns);
}

static PyObject *get_index(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromLong(self_of(self)->decision.index);
}

static PyObject *get_granted(PyObject *self, void *unused) {
	(void)unused;
	return PyLong_FromUnsignedLong(self_of(self)->granted);
}

static PyObject *get_repeated(PyObject *self, void *unused) {
	(void)unused;
	return PyBool_FromLong(self_of(self)->repeated);
}

static PyObject *get_failed_open(PyObject *self, void *unused) {
	(void)unused;
	return PyBool_FromLong(self_of(self)->failed_open);
}

static PyObject *get_observed(PyObject *self, void *unused) {
	(void)unused;
	return PyBool_FromLong(self_of(self)->observed);
}

static PyObject *or_none(PyObject *object) {
	if (object == NULL)
		object = Py_None;
	Py_INCREF(object);
	return object;
}

static PyObject *get_id(PyObject *self, void *unused) {
	(void)unused;
	return or_none(self_of(self)->id);
}

static PyObject *get_each(PyObject *self, void *unused) {
	(void)unused;
	return or_none(self_of(self)->each);
}

static PyObject *get_rule(PyObject *self, void *unused) {
	(void)unused;
	return or_none(self_of(self)->rule);
}

static PyObject *get_bound(PyObject *self, void *unused) {
	(void)unused;
	uint8_t bound = self_of(self)->decision.bound;
	return bound == SLUICE_BOUND_NONE ? or_none(NULL) : PyUnicode_FromString(sluice_bound_name((sluice_bound)bound));
}

/* The text of the limit at a place of what was asked; a new reference. */
static PyObject *limit_at(PyObject *limits, int32_t index) {
	if (index < 0 || limits == NULL || limits == Py_None)
		return PyUnicode_FromString("");
	if (!PyTuple_Check(limits) && !PyList_Check(limits))
		return or_none(limits);
	PyObject *one = PySequence_GetItem(limits, index);
	if (one == NULL || (!PyTuple_Check(one) && !PyList_Check(one)))
		return one;
	PyObject *text = PySequence_GetItem(one, 1); /* a pair: key, limit */
	Py_DECREF(one);
	return text;
}

/* The limit that decided: its name in the policy, or its text as it was given. */
static PyObject *get_limit(PyObject *self, void *unused) {
	(void)unused;
	struct result *r = self_of(self);
	return r->name != NULL ? or_none(r->name) : limit_at(r->limits, r->decision.index);
}

static int result_bool(PyObject *self) {
	return self_of(self)->decision.allowed;
}

static PyObject *result_repr(PyObject *self) {
	const struct result *r = self_of(self);
	PyObject *limit = get_limit(self, NULL), *text = NULL;
	if (limit != NULL)
		text = PyUnicode_FromFormat(
			"Result(allowed=%s, limit=%R, quota=%llu, remaining=%u, retry_after=%lld, reset_after=%lld, delay=%lld%s)",
			r->decision.allowed ? "True" : "False", limit, (unsigned long long)r->decision.quota,
			(unsigned)r->decision.remaining, (long long)sl_ns_to_ms_ceil(r->decision.retry_after_ns),
			(long long)sl_ns_to_ms_ceil(r->decision.reset_after_ns), (long long)sl_ns_to_ms_ceil(r->decision.delay_ns),
			r->failed_open ? ", failed_open=True" : "");
	Py_XDECREF(limit);
	return text;
}

static PyGetSetDef members[] = {
	{"allowed", get_allowed, NULL, "whether the request may go on", NULL},
	{"remaining", get_remaining, NULL, "the largest cost that would be admitted now", NULL},
	{"quota", get_quota, NULL, "of the limit that decided", NULL},
	{"retry_after", get_retry_after, NULL, "ms after which the same cost is admitted; 0 when allowed, -1 never", NULL},
	{"reset_after", get_reset_after, NULL, "ms until the whole quota is back", NULL},
	{"delay", get_delay, NULL, "ms to hold an allowed request (leaky-bucket)", NULL},
	{"next_after", get_next_after, NULL, "ms until `remaining` grows by one, where that was asked for", NULL},
	{"limit", get_limit, NULL, "the limit that decided: its name in the policy, or its text", NULL},
	{"index", get_index, NULL, "its position, from 0; -1 where none applied", NULL},
	{"granted", get_granted, NULL, "what of the cost was granted", NULL},
	{"repeated", get_repeated, NULL, "it had been charged before, under this id", NULL},
	{"failed_open", get_failed_open, NULL, "it passes though the store could not answer", NULL},
	{"id", get_id, NULL, "of what is held now: a lease's id, a ticket; else None", NULL},
	{"each", get_each, NULL, "a Result for each limit that was judged, where that was asked for; else None", NULL},
	{"rule", get_rule, NULL, "the limit in notation, in `each` of a policy; else None", NULL},
	{"observed", get_observed, NULL, "in `each` of a policy: it denies nobody", NULL},
	{"bound", get_bound, NULL, "which bound of ours was met; None", NULL},
	{NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
	{Py_tp_doc, "A decision: what a client should know. True where it is allowed. Waits are whole milliseconds."},
	{Py_tp_new, refuse_new},
	{Py_tp_dealloc, result_dealloc},
	{Py_tp_repr, result_repr},
	{Py_tp_getset, members},
	{Py_nb_bool, result_bool},
	{0, NULL},
};

PyType_Spec result_spec = {"sluice.Result", sizeof(struct result), 0, Py_TPFLAGS_DEFAULT, slots};

/* ---- of a call --------------------------------------------------------------------------------------------------- */

static bool set_text(PyObject **place, struct sluice_bytes text) {
	if (text.data == NULL)
		return true;
	*place = PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.len, "replace");
	return *place != NULL;
}

/* One limit's own answer; its index is its place among what was asked, of a policy in the file. */
static PyObject *one_of(const struct core *core, const struct sl_told *told, uint32_t i, PyObject *limits) {
	struct result *made = new_result(core, &told->each[i], 0, NULL);
	bool good = made != NULL;
	if (good && told->limits != NULL) {
		made->observed = told->limits[i].observed;
		good = set_text(&made->name, told->limits[i].name) && set_text(&made->rule, told->limits[i].text);
	} else if (good) {
		good = (made->name = limit_at(limits, (int32_t)i)) != NULL;
	}
	if (good)
		return (PyObject *)made;
	Py_XDECREF((PyObject *)made);
	return NULL;
}

static PyObject *each_of(const struct core *core, const struct sl_told *told, PyObject *limits) {
	PyObject *each = PyTuple_New(told->each_count);
	for (uint32_t i = 0; each != NULL && i < told->each_count; i++) {
		PyObject *one = one_of(core, told, i, limits);
		if (one == NULL)
			Py_CLEAR(each);
		else
			PyTuple_SetItem(each, i, one);
	}
	return each;
}

PyObject *result_of_told(const struct core *core, const struct sl_told *told, PyObject *limits, bool each) {
	struct result *made = new_result(core, &told->merged, told->granted, limits);
	if (made == NULL)
		return NULL;
	made->repeated = told->repeated;
	made->failed_open = told->failed_open;
	bool good = set_text(&made->id, told->id) && set_text(&made->name, told->name);
	if (good && each)
		good = (made->each = each_of(core, told, limits)) != NULL;
	if (good)
		return (PyObject *)made;
	Py_DECREF((PyObject *)made);
	return NULL;
}

PyObject *result_fallback(const struct core *core, bool allow, PyObject *limits, bool each) {
	const struct sluice_decision allowed = {
		.allowed = true, .index = -1, .remaining = UINT32_MAX, .quota = UINT32_MAX};
	const struct sluice_decision denied = {.index = -1, .retry_after_ns = 1000000000};
	struct result *made = new_result(core, allow ? &allowed : &denied, 0, limits);
	if (made == NULL)
		return NULL;
	made->failed_open = allow;
	if (!each || (made->each = PyTuple_New(0)) != NULL)
		return (PyObject *)made;
	Py_DECREF((PyObject *)made);
	return NULL;
}

PyObject *core_fallback(PyObject *module, PyObject *args) {
	int allow, each;
	PyObject *limits;
	if (!PyArg_ParseTuple(args, "pOp", &allow, &limits, &each))
		return NULL;
	return result_fallback(core_of(module), allow != 0, limits, each != 0);
}

/* ---- of a server's answer ---------------------------------------------------------------------------------------- */

static sluice_ns wait_of(long long wait) {
	if (wait < 0)
		return SLUICE_NEVER;
	return (uint64_t)wait < SLUICE_NEVER / 1000000 ? (sluice_ns)wait * 1000000 : SLUICE_NEVER - 1;
}

static PyObject *new_or_null(PyObject *object) {
	if (object == Py_None)
		return NULL;
	Py_INCREF(object);
	return object;
}

PyObject *core_result(PyObject *module, PyObject *args) {
	PyObject *limits, *name, *id, *each;
	long long allowed, quota, remaining, retry, reset, delay, index, next;
	unsigned int granted;
	int repeated, failed_open;
	if (!PyArg_ParseTuple(args, "OO(LLLLLLL)LIpOpO", &limits, &name, &allowed, &quota, &remaining, &retry, &reset,
	                      &delay, &index, &next, &granted, &repeated, &id, &failed_open, &each))
		return NULL;
	if (quota < 0 || remaining < 0 || remaining > UINT32_MAX || index < -1 || index > INT32_MAX) {
		PyErr_SetString(PyExc_ValueError, "these numbers are no decision");
		return NULL;
	}
	struct sluice_decision decision = {
		.allowed = (allowed & 1) != 0,
		.index = (int32_t)index,
		.remaining = (uint32_t)remaining,
		.quota = (uint64_t)quota,
		.retry_after_ns = wait_of(retry),
		.reset_after_ns = wait_of(reset),
		.delay_ns = wait_of(delay),
		.next_after_ns = wait_of(next),
	};
	struct result *made = new_result(core_of(module), &decision, granted, limits == Py_None ? NULL : limits);
	if (made == NULL)
		return NULL;
	made->repeated = repeated != 0;
	made->failed_open = failed_open != 0;
	made->name = new_or_null(name);
	made->id = new_or_null(id);
	made->each = new_or_null(each);
	return (PyObject *)made;
}

/* The same of one limit of a server's policy: told(name, rule, numbers, index, observed). */
PyObject *core_told(PyObject *module, PyObject *args) {
	PyObject *name, *rule;
	long long numbers[SL_FIGURES], index;
	int64_t figures[SL_FIGURES];
	int observed;
	if (!PyArg_ParseTuple(args, "UU(LLLLLLL)Lp", &name, &rule, &numbers[0], &numbers[1], &numbers[2], &numbers[3],
	                      &numbers[4], &numbers[5], &numbers[6], &index, &observed))
		return NULL;
	for (int i = 0; i < SL_FIGURES; i++)
		figures[i] = numbers[i];
	if (!sl_answer_is_each(figures, SL_FIGURES) || index < 0 || index > INT32_MAX) {
		PyErr_SetString(PyExc_ValueError, "these numbers are no decision");
		return NULL;
	}
	struct sluice_decision decision = sl_answer_each(figures, SL_FIGURES);
	decision.index = (int32_t)index;
	struct result *made = new_result(core_of(module), &decision, 0, NULL);
	if (made == NULL)
		return NULL;
	made->observed = observed != 0;
	made->name = new_or_null(name);
	made->rule = new_or_null(rule);
	return (PyObject *)made;
}

static bool read_numbers(PyObject *row, int64_t numbers[7]) {
	if (row == NULL || !PyList_Check(row) || PyList_Size(row) != 7)
		return false;
	for (Py_ssize_t j = 0; j < 7; j++)
		numbers[j] = PyLong_AsLongLong(PyList_GetItem(row, j));
	return PyErr_Occurred() == NULL;
}

PyObject *core_merge(PyObject *module, PyObject *args) {
	PyObject *limits, *list, *id;
	unsigned int granted;
	int repeated, next, each;
	int64_t numbers[SLUICE_ITEMS_MAX][7];
	struct sluice_bytes texts[SLUICE_ITEMS_MAX] = {{NULL, 0}};
	PyObject *held[SLUICE_ITEMS_MAX] = {NULL};
	struct sl_told told = {.granted = 0};
	if (!PyArg_ParseTuple(args, "OO!IpOpp", &limits, &PyList_Type, &list, &granted, &repeated, &id, &next,
	                      &each))
		return NULL;
	Py_ssize_t count = PyList_Size(list);
	bool good = count <= SLUICE_ITEMS_MAX;
	for (Py_ssize_t i = 0; good && i < count; i++) {
		held[i] = limit_at(limits, (int32_t)i);
		good = held[i] != NULL && bytes_of(held[i], &texts[i]) && read_numbers(PyList_GetItem(list, i), numbers[i]);
	}
	good = good && sl_told_merge(&told, numbers, texts, (uint32_t)count);
	for (int i = 0; i < SLUICE_ITEMS_MAX; i++)
		Py_XDECREF(held[i]);
	if (!good) {
		PyErr_Clear();
		PyErr_SetString(PyExc_ValueError, "these numbers are no decision");
		return NULL;
	}
	told.granted = granted;
	told.repeated = repeated != 0;
	if (each == 0 && next == 0)
		told.merged.next_after_ns = 0;
	PyObject *made = result_of_told(core_of(module), &told, limits, each != 0);
	if (made != NULL)
		self_of(made)->id = new_or_null(id);
	return made;
}
