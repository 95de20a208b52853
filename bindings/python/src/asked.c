/* Arguments of Python as what is asked. Every method has parameters of one table: which by position, which by name. */
#include "bindings/python/src/core.h"

#include <stdio.h>

enum param {
	PARAM_KEY,
	PARAM_LIMITS,
	PARAM_COST,
	PARAM_ID,
	PARAM_TTL,
	PARAM_UPTO,
	PARAM_MEMBER,
	PARAM_NEXT,
	PARAM_EACH,
	PARAM_ATTRIBUTES,
	PARAMS
};
static const char *const words[PARAMS] = {"key",  "limits", "cost", "id",   "ttl",
                                          "upto", "member", "next", "each", "attributes"};

#define NAMED(name) (1u << PARAM_##name)

/* What a method takes: so many by position, of which so many must be there; the others by name. */
static const struct form {
	const char *name;
	uint8_t position[4], count, needed;
	uint32_t named;
} forms[] = {
	[SL_OP_CHECK] = {"check", {PARAM_KEY, PARAM_LIMITS, PARAM_COST}, 3, 2,
                     NAMED(ID) | NAMED(UPTO) | NAMED(MEMBER) | NAMED(NEXT) | NAMED(EACH)},
	[SL_OP_PEEK] = {"peek", {PARAM_KEY, PARAM_LIMITS, PARAM_COST}, 3, 2,
                    NAMED(UPTO) | NAMED(MEMBER) | NAMED(NEXT) | NAMED(EACH)},
	[SL_OP_REFUND] = {"refund", {PARAM_KEY, PARAM_LIMITS, PARAM_COST}, 3, 2,
                      NAMED(MEMBER) | NAMED(NEXT) | NAMED(EACH)},
	[SL_OP_RESET] = {"reset", {PARAM_KEY, PARAM_LIMITS}, 2, 2, 0},
	[SL_OP_ACQUIRE] = {"acquire", {PARAM_KEY, PARAM_LIMITS, PARAM_COST}, 3, 2,
                       NAMED(ID) | NAMED(MEMBER) | NAMED(NEXT) | NAMED(EACH)},
	[SL_OP_RELEASE] = {"release", {PARAM_KEY, PARAM_LIMITS, PARAM_ID}, 3, 3, 0},
	[SL_OP_RENEW] = {"renew", {PARAM_KEY, PARAM_LIMITS, PARAM_ID}, 3, 3, 0},
	[SL_OP_RESERVE] = {"reserve", {PARAM_KEY, PARAM_LIMITS, PARAM_COST}, 3, 2,
                       NAMED(TTL) | NAMED(ID) | NAMED(NEXT) | NAMED(EACH)},
	[SL_OP_COMMIT] = {"commit", {PARAM_KEY, PARAM_LIMITS, PARAM_ID, PARAM_COST}, 4, 4, NAMED(NEXT) | NAMED(EACH)},
	[SL_OP_ADMIT] = {"admit", {PARAM_ATTRIBUTES, PARAM_COST}, 2, 1,
                     NAMED(ID) | NAMED(UPTO) | NAMED(MEMBER) | NAMED(NEXT) | NAMED(EACH)},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

enum sl_operation operation_of(const char *name) {
	for (unsigned i = 0; i < FORMS; i++)
		if (forms[i].name != NULL && strcmp(forms[i].name, name) == 0)
			return (enum sl_operation)i;
	return SL_OPERATIONS;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

bool bytes_of(PyObject *object, struct sluice_bytes *bytes) {
	Py_ssize_t len;
	if (PyUnicode_Check(object)) {
		bytes->data = PyUnicode_AsUTF8AndSize(object, &len);
		bytes->len = (size_t)len;
		if (bytes->data == NULL)
			PyErr_Clear();
		return bytes->data != NULL;
	}
	if (!PyBytes_Check(object))
		return false;
	bytes->data = PyBytes_AsString(object);
	bytes->len = (size_t)PyBytes_Size(object);
	return true;
}

static bool read_bytes(PyObject *object, const char *what, struct sluice_bytes *bytes) {
	if (bytes_of(object, bytes))
		return true;
	PyErr_Format(PyExc_TypeError, "%s: expected str (without lone surrogates) or bytes, found %R", what, object);
	return false;
}

/* A whole number; one beyond 64 bits becomes the nearest, which the grammar refuses by its own words. */
static bool read_integer(PyObject *object, const char *what, int64_t *number) {
	int overflow;
	if (!PyLong_Check(object)) {
		PyErr_Format(PyExc_TypeError, "%s: expected int, found %R", what, object);
		return false;
	}
	*number = PyLong_AsLongLongAndOverflow(object, &overflow);
	if (overflow != 0)
		*number = overflow > 0 ? INT64_MAX : INT64_MIN;
	return overflow != 0 || PyErr_Occurred() == NULL;
}

static bool read_flag(PyObject *object, bool *flag) {
	int truth = PyObject_IsTrue(object);
	*flag = truth == 1;
	return truth >= 0;
}

/* ---- limits ------------------------------------------------------------------------------------------------------ */

/* A text; or a key and its limit; or these and a member. */
static bool read_limit(PyObject *object, struct sl_asked_limit *limit) {
	*limit = (struct sl_asked_limit){.text = {NULL, 0}};
	if (!PyTuple_Check(object))
		return read_bytes(object, "limit", &limit->text);
	Py_ssize_t count = PyTuple_Size(object);
	if (count != 2 && count != 3) {
		PyErr_Format(PyExc_TypeError, "limit: expected a text, (key, limit) or (key, limit, member), found %R", object);
		return false;
	}
	PyObject *key = PyTuple_GetItem(object, 0), *member = count == 3 ? PyTuple_GetItem(object, 2) : Py_None;
	return (key == Py_None || read_bytes(key, "key", &limit->key)) &&
	       read_bytes(PyTuple_GetItem(object, 1), "limit", &limit->text) &&
	       (member == Py_None || read_bytes(member, "member", &limit->member));
}

/* The same limits in tuples only: another thread may change a list, or a list in it, while this one decides without
 * the GIL, and with it go the texts. NULL: an error is set. */
static PyObject *fixed(PyObject *limits) {
	PyObject *outer = PySequence_Tuple(limits);
	const Py_ssize_t count = outer == NULL ? 0 : PyTuple_Size(outer);
	Py_ssize_t lists = 0;
	for (Py_ssize_t i = 0; i < count; i++)
		lists += PyList_Check(PyTuple_GetItem(outer, i));
	if (lists == 0)
		return outer;
	PyObject *inner = PyTuple_New(count);
	for (Py_ssize_t i = 0; i < count && inner != NULL; i++) {
		PyObject *one = PyTuple_GetItem(outer, i);
		if (PyList_Check(one))
			one = PyList_AsTuple(one);
		else
			Py_INCREF(one);
		if (one == NULL || PyTuple_SetItem(inner, i, one) != 0) {
			Py_DECREF(inner);
			inner = NULL;
		}
	}
	Py_DECREF(outer);
	return inner;
}

static bool read_limits(struct asked *asked, PyObject *object) {
	asked->limits_object = object;
	asked->asked.limits = asked->limits;
	if (object == Py_None)
		return true;
	if (PyUnicode_Check(object) || PyBytes_Check(object)) {
		asked->asked.limit_count = 1;
		return read_limit(object, asked->limits);
	}
	asked->kept[0] = fixed(object);
	if (asked->kept[0] == NULL) {
		if (PyErr_ExceptionMatches(PyExc_TypeError))
			PyErr_Format(PyExc_TypeError, "limits: expected a text or a list, found %R", object);
		return false;
	}
	asked->limits_object = asked->kept[0];
	Py_ssize_t count = PyTuple_Size(asked->kept[0]);
	asked->asked.limit_count = (uint32_t)(count < SL_ASKED_LIMITS_MAX ? count : SL_ASKED_LIMITS_MAX);
	for (uint32_t i = 0; i < asked->asked.limit_count; i++)
		if (!read_limit(PyTuple_GetItem(asked->kept[0], i), &asked->limits[i]))
			return false;
	return true;
}

/* Attributes that are None are absent. */
static bool read_attributes(struct asked *asked, PyObject *object) {
	const uint32_t room = sizeof asked->attributes / sizeof asked->attributes[0];
	uint32_t count = 0;
	if (!PyDict_Check(object) && !PyObject_HasAttrString(object, "items")) {
		PyErr_Format(PyExc_TypeError, "attributes: expected a mapping, found %R", object);
		return false;
	}
	asked->kept[1] = PyMapping_Items(object);
	if (asked->kept[1] == NULL)
		return false;
	for (Py_ssize_t i = 0; i < PyList_Size(asked->kept[1]); i++) {
		PyObject *pair = PyList_GetItem(asked->kept[1], i);
		if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) { /* of a mapping with items() of its own */
			PyErr_Format(PyExc_TypeError, "attributes: expected pairs of a name and a value, found %R", pair);
			return false;
		}
		PyObject *name = PyTuple_GetItem(pair, 0), *value = PyTuple_GetItem(pair, 1);
		if (value == Py_None)
			continue;
		if (count == room)
			break; /* more than a call may have by far */
		if (!read_bytes(name, "attribute", &asked->attributes[count].name) ||
		    !read_bytes(value, "attribute's value", &asked->attributes[count].value))
			return false;
		count++;
	}
	asked->asked.attributes = asked->attributes;
	asked->asked.attribute_count = count;
	return true;
}

/* ---- a call ------------------------------------------------------------------------------------------------------ */

static bool read_param(struct asked *asked, enum param param, PyObject *value) {
	struct sl_asked *a = &asked->asked;
	switch (param) {
	case PARAM_KEY:
		return read_bytes(value, "key", &a->key);
	case PARAM_LIMITS:
		return read_limits(asked, value);
	case PARAM_COST:
		return read_integer(value, "cost", &a->cost);
	case PARAM_TTL:
		return read_integer(value, "ttl", &a->ttl_ms);
	case PARAM_ID:
		return value == Py_None || read_bytes(value, "id", &a->id);
	case PARAM_MEMBER:
		return value == Py_None || read_bytes(value, "member", &a->member);
	case PARAM_UPTO:
		return read_flag(value, &a->upto);
	case PARAM_NEXT:
		return read_flag(value, &a->next);
	case PARAM_EACH:
		return read_flag(value, &a->each);
	default:
		return read_attributes(asked, value);
	}
}

static bool fail_count(const struct form *form, Py_ssize_t count) {
	PyErr_Format(PyExc_TypeError, "%s() takes %d to %d positional arguments, found %zd", form->name, (int)form->needed,
	             (int)form->count, count);
	return false;
}

/* The parameter of a name that may stand here; PARAMS for none. */
static enum param param_named(const struct form *form, PyObject *name) {
	uint32_t may = form->named;
	for (int i = 0; i < form->count; i++)
		may |= 1u << form->position[i];
	for (int i = 0; i < PARAMS; i++)
		if ((may >> i & 1) != 0 && PyUnicode_CompareWithASCIIString(name, words[i]) == 0)
			return (enum param)i;
	return PARAMS;
}

static bool read_named(struct asked *asked, const struct form *form, PyObject *name, PyObject *value, uint32_t *seen) {
	enum param param = param_named(form, name);
	if (param == PARAMS) {
		PyErr_Format(PyExc_TypeError, "%s() got an unexpected keyword argument %R", form->name, name);
		return false;
	}
	if ((*seen >> param & 1) != 0) {
		PyErr_Format(PyExc_TypeError, "%s() got multiple values for argument %R", form->name, name);
		return false;
	}
	*seen |= 1u << param;
	return read_param(asked, param, value);
}

static void begin(struct asked *asked, enum sl_operation operation) {
	memset(&asked->asked, 0, sizeof asked->asked);
	asked->asked.operation = operation;
	asked->asked.cost = 1;
	asked->asked.ttl_ms = 60000;
	asked->limits_object = NULL;
	asked->kept[0] = asked->kept[1] = NULL;
}

bool asked_read(struct asked *asked, const struct core *core, enum sl_operation operation, PyObject *const *args,
                Py_ssize_t count, PyObject *names) {
	const struct form *form = &forms[operation];
	Py_ssize_t named = names == NULL ? 0 : PyTuple_Size(names);
	uint32_t seen = 0;
	(void)core;
	begin(asked, operation);
	if (count > form->count)
		return fail_count(form, count);
	for (Py_ssize_t i = 0; i < count; i++) {
		seen |= 1u << form->position[i];
		if (!read_param(asked, (enum param)form->position[i], args[i]))
			return false;
	}
	for (Py_ssize_t i = 0; i < named; i++)
		if (!read_named(asked, form, PyTuple_GetItem(names, i), args[count + i], &seen))
			return false;
	for (int i = 0; i < form->needed; i++)
		if ((seen >> form->position[i] & 1) == 0)
			return fail_count(form, count);
	asked->given = (asked->asked.upto ? ASKED_UPTO : 0) | (asked->asked.next ? ASKED_NEXT : 0) |
	               (asked->asked.each ? ASKED_EACH : 0);
	return true;
}

void asked_end(struct asked *asked) {
	Py_XDECREF(asked->kept[0]);
	Py_XDECREF(asked->kept[1]);
}

/* ---- failures and instants --------------------------------------------------------------------------------------- */

PyObject *raise_failure(const struct core *core, const struct sl_failure *failure) {
	return raise_as(core, sl_failure_name(failure->kind), failure->text);
}

PyObject *raise_as(const struct core *core, const char *code, const char *text) {
	PyObject *shown = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"); /* cut, maybe in a character */
	PyObject *error = shown == NULL ? NULL : PyObject_CallFunction(core->error, "sO", code, shown);
	Py_XDECREF(shown);
	if (error != NULL)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return NULL;
}

sluice_ns instant_of(const struct core *core, PyObject *clock) {
	struct sl_failure failure = {.kind = SL_FAILED_ARGUMENT,
	                             .text = "the clock says no instant: expected Unix milliseconds"};
	PyObject *said = PyObject_CallObject(clock, NULL);
	double ms = -1;
	if (said == NULL)
		return 0;
	if (PyLong_Check(said) || PyFloat_Check(said))
		ms = PyFloat_AsDouble(said);
	Py_DECREF(said);
	if (PyErr_Occurred() == NULL && ms >= 0 && ms < (double)SL_AT_MS_MAX) {
		sluice_ns now = (sluice_ns)ms * 1000000 + (sluice_ns)((ms - (double)(sluice_ns)ms) * 1e6);
		return now != 0 ? now : 1; /* 0 is no instant of a call */
	}
	PyErr_Clear();
	(void)raise_failure(core, &failure);
	return 0;
}

/* ---- for servers ------------------------------------------------------------------------------------------------- */

/* As an array of RESP. */
static PyObject *as_bytes(const struct sluice_bytes *words_of, uint32_t count) {
	size_t room = 16;
	char head[32];
	for (uint32_t i = 0; i < count; i++)
		room += words_of[i].len + 32;
	char *memory = PyMem_Malloc(room), *at = memory;
	if (memory == NULL)
		return PyErr_NoMemory();
	at += snprintf(at, room, "*%u\r\n", count);
	for (uint32_t i = 0; i < count; i++) {
		int len = snprintf(head, sizeof head, "$%zu\r\n", words_of[i].len);
		memcpy(at, head, (size_t)len);
		at += len;
		if (words_of[i].len != 0)
			memcpy(at, words_of[i].data, words_of[i].len);
		at += words_of[i].len;
		*at++ = '\r';
		*at++ = '\n';
	}
	PyObject *bytes = PyBytes_FromStringAndSize(memory, at - memory);
	PyMem_Free(memory);
	return bytes;
}

static PyObject *encoded(const struct core *core, struct asked *asked) {
	struct sluice_bytes *list = PyMem_Malloc(SL_ASKED_WORDS_MAX * sizeof *list);
	struct sl_asked_numbers numbers;
	struct sl_failure failure;
	if (list == NULL)
		return PyErr_NoMemory();
	asked->asked.open = asked->asked.operation == SL_OP_ADMIT;
	if (asked->asked.operation == SL_OP_COMMIT)
		asked->asked.limit_count = 0; /* the ticket says them */
	uint32_t count = sl_asked_words(&asked->asked, &numbers, list, &failure);
	PyObject *bytes = count == 0 ? raise_failure(core, &failure) : as_bytes(list, count);
	PyMem_Free(list);
	return bytes == NULL ? NULL
	                     : Py_BuildValue("(NIO)", bytes, (unsigned)asked->given,
	                                     asked->limits_object != NULL ? asked->limits_object : Py_None);
}

static bool read_operation(PyObject *object, enum sl_operation *operation) {
	struct sluice_bytes name;
	*operation = bytes_of(object, &name) ? operation_of(name.data) : SL_OPERATIONS;
	if (*operation == SL_OPERATIONS)
		PyErr_Format(PyExc_ValueError, "no operation: %R", object);
	return *operation != SL_OPERATIONS;
}

PyObject *core_encode(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
	const struct core *core = core_of(module);
	struct asked *asked;
	PyObject *bytes = NULL;
	enum sl_operation operation;
	sluice_ns now = 0;
	if (count < 2) {
		PyErr_SetString(PyExc_TypeError, "encode() takes an operation, a clock or None, and its arguments");
		return NULL;
	}
	if (!read_operation(args[0], &operation) ||
	    (args[1] != Py_None && (now = instant_of(core, args[1])) == 0))
		return NULL;
	asked = PyMem_Malloc(sizeof *asked);
	if (asked == NULL)
		return PyErr_NoMemory();
	if (asked_read(asked, core, operation, args + 2, count - 2, names)) {
		asked->asked.now = now;
		bytes = encoded(core, asked);
	}
	asked_end(asked);
	PyMem_Free(asked);
	return bytes;
}

PyObject *core_ticket(PyObject *module, PyObject *const *args, Py_ssize_t count, PyObject *names) {
	struct asked *asked = PyMem_Malloc(sizeof *asked);
	char *text = PyMem_Malloc(SL_ASKED_TICKET_BYTES);
	struct sl_failure failure;
	PyObject *made = NULL;
	size_t len = 0;
	if (asked == NULL || text == NULL) {
		PyErr_NoMemory();
	} else {
		if (asked_read(asked, core_of(module), SL_OP_RELEASE, args, count, names)) {
			len = sl_asked_ticket(&asked->asked, text, &failure);
			made = len == 0 ? raise_failure(core_of(module), &failure)
			                : PyUnicode_DecodeASCII(text, (Py_ssize_t)len, NULL);
		}
		asked_end(asked);
	}
	PyMem_Free(asked);
	PyMem_Free(text);
	return made;
}
