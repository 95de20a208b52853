/* For middleware: the headers that tell a client about its limits, and whose request it is, both as the server's HTTP
 * doors have them. */
#include "bindings/python/src/core.h"

#include "base/math.h"
#include "policy/attribute.h"
#include "policy/policy.h"
#include "proto/forwarded.h"
#include "proto/headers.h"

/* ---- headers ----------------------------------------------------------------------------------------------------- */

enum { ROOM = SL_HEADERS_ROOM_FIXED + SLUICE_ITEMS_MAX * (SL_HEADERS_ROOM_PER_LIMIT + 4 * 1024) };

/* The limit of a result: its rule, or what it was asked by. */
static bool read_limit(struct result *one, struct sl_headers_limit *told, struct sluice_limit *limit,
                       PyObject **name) {
	struct sluice_bytes text;
	*name = PyObject_GetAttrString((PyObject *)one, "limit");
	if (*name == NULL || !bytes_of(*name, &told->name))
		return false;
	if (one->rule == NULL || !bytes_of(one->rule, &text))
		text = told->name;
	if (sluice_limit_parse(limit, text, NULL) != SLUICE_OK)
		return false;
	told->limit = limit;
	told->decision = &one->decision;
	told->observed = one->observed;
	return true;
}

/* "Name: value" lines as a list of pairs. */
static PyObject *pairs_of(const char *text, size_t len) {
	PyObject *list = PyList_New(0);
	const char *end = text + len;
	while (list != NULL && text < end) {
		const char *line_end = memchr(text, '\r', (size_t)(end - text)), *colon;
		if (line_end == NULL || (colon = memchr(text, ':', (size_t)(line_end - text))) == NULL)
			break;
		PyObject *pair = Py_BuildValue("(s#s#)", text, (Py_ssize_t)(colon - text), colon + 2,
		                               (Py_ssize_t)(line_end - colon - 2));
		if (pair == NULL || PyList_Append(list, pair) != 0)
			Py_CLEAR(list);
		Py_XDECREF(pair);
		text = line_end + 2;
	}
	return list;
}

/* Notation is named by its canonical text. */
static void name_canonically(struct sl_headers_limit *told, const struct result *one,
                             char text[SLUICE_LIMIT_TEXT_MAX]) {
	if (one->rule == NULL)
		told->name = sl_slice(text, sluice_limit_print(told->limit, text));
}

/* Of a server's policy only the limit that decided is known, and not its window, which the draft leaves to us. */
static void put_decider(struct sl_out *out, const struct result *result) {
	const struct sluice_decision *decision = &result->decision;
	struct sluice_bytes name;
	if (!bytes_of(result->name, &name) || name.len == 0)
		return;
	sl_out_str(out, "RateLimit-Policy: ");
	sl_headers_string(out, name);
	sl_out_str(out, ";q=");
	sl_headers_integer(out, decision->quota);
	sl_out_str(out, "\r\nRateLimit: ");
	sl_headers_string(out, name);
	sl_out_str(out, ";r=");
	sl_headers_integer(out, decision->remaining);
	if (decision->next_after_ns != 0 && decision->next_after_ns != SLUICE_NEVER) {
		sl_out_str(out, ";t=");
		sl_headers_integer(out, (uint64_t)sl_ns_to_s_ceil(decision->next_after_ns));
	}
	sl_out_str(out, "\r\n");
}

/* The instant at which the whole quota is back is told of `now`, which was read after the decision, and of another
 * clock, and of a wait that a server has rounded up. So their sum is some ms off, other ones at each poll, and where
 * the instant is a whole second every other poll would tell the next one. Windows end at multiples of their length:
 * what is near to one means it. The same in JavaScript: ../../node/doors/instant.js. */
static void hold_still(struct sl_headers_decision *told, const struct sluice_limit *limit,
                       struct sluice_decision *decision) {
	const sluice_ns near_ns = 100000000, minute_ns = 60000000000, reset_ns = decision->reset_after_ns;
	sluice_ns turn_ns = limit->calendar != SLUICE_CALENDAR_NONE ? minute_ns : limit->window_ns;
	bool turns = limit->algorithm == SLUICE_FIXED_WINDOW || limit->algorithm == SLUICE_SLIDING_WINDOW;
	if (!turns || reset_ns == 0 || reset_ns == SLUICE_NEVER || told->now > SLUICE_NEVER / 2 - reset_ns)
		return;
	sluice_ns at = told->now + reset_ns, end = (at + turn_ns / 2) / turn_ns * turn_ns;
	if (end + near_ns < at || at + near_ns < end)
		return;
	told->now = sl_min(told->now, end);
	decision->reset_after_ns = end - told->now;
}

PyObject *core_headers(PyObject *module, PyObject *args) {
	struct core *core = core_of(module);
	unsigned int forms;
	unsigned long long now_ms;
	PyObject *object, *names[SLUICE_ITEMS_MAX] = {NULL}, *list = NULL;
	struct sluice_limit limits[SLUICE_ITEMS_MAX];
	struct sl_headers_limit told[SLUICE_ITEMS_MAX];
	char texts[SLUICE_ITEMS_MAX][SLUICE_LIMIT_TEXT_MAX];
	if (!PyArg_ParseTuple(args, "IO!K", &forms, core->result, &object, &now_ms))
		return NULL;
	struct result *result = (struct result *)object;
	struct sl_headers_decision decision = {
		.limits = told, .decided = -1, .allowed = result->decision.allowed, .now = now_ms * 1000000};
	char *memory = PyMem_Malloc(ROOM);
	if (memory == NULL)
		return PyErr_NoMemory();
	struct sl_out out = sl_out_to(memory, ROOM);
	Py_ssize_t count = result->each == NULL ? 0 : PyTuple_Size(result->each);
	bool good = true;
	for (Py_ssize_t i = 0; good && i < count && i < SLUICE_ITEMS_MAX; i++) {
		struct result *one = (struct result *)PyTuple_GetItem(result->each, i);
		good = read_limit(one, &told[i], &limits[i], &names[i]);
		if (!good)
			break;
		name_canonically(&told[i], one, texts[i]);
		decision.count++;
		if (one->decision.index == result->decision.index)
			decision.decided = (int32_t)i;
	}
	struct sluice_decision decider;
	if (good && decision.decided >= 0 && (forms & SL_FORM_LEGACY_EPOCH) != 0) {
		decider = *told[decision.decided].decision;
		hold_still(&decision, told[decision.decided].limit, &decider);
		told[decision.decided].decision = &decider;
	}
	if (good && result->each != NULL)
		sl_headers_rate_limit(&out, forms, &decision);
	else if (good && result->name != NULL && (forms & SL_FORM_DRAFT10) != 0)
		put_decider(&out, result);
	if (!result->decision.allowed)
		sl_headers_retry_after(&out, result->decision.retry_after_ns);
	list = pairs_of(memory, sl_out_len(&out));
	PyErr_Clear();
	for (int i = 0; i < SLUICE_ITEMS_MAX; i++)
		Py_XDECREF(names[i]);
	PyMem_Free(memory);
	return list;
}

/* ---- which path it asks for -------------------------------------------------------------------------------------- */

PyObject *core_path(PyObject *module, PyObject *target) {
	struct sluice_bytes bytes;
	char memory[SLUICE_KEY_BYTES_MAX];
	(void)module;
	if (!bytes_of(target, &bytes))
		return PyErr_Format(PyExc_TypeError, "expected bytes");
	bytes = sl_attribute_form(SL_ATTRIBUTE_PATH, bytes, 128, memory);
	return PyUnicode_DecodeLatin1(bytes.data, (Py_ssize_t)bytes.len, NULL);
}

/* ---- whose request it is ----------------------------------------------------------------------------------------- */

struct proxies {
	PyObject_HEAD
	struct sluice_policy *policy; /* of its trusted-proxies and its ipv6-prefix */
};

static void proxies_dealloc(PyObject *self) {
	PyTypeObject *type = Py_TYPE(self);
	sluice_policy_free(((struct proxies *)self)->policy);
	PyObject_Free(self);
	Py_DECREF(type);
}

/* proxies(yaml): those of a policy that says trusted-proxies and ipv6-prefix. */
PyObject *core_proxies(PyObject *module, PyObject *args) {
	struct core *core = core_of(module);
	struct sluice_bytes yaml;
	struct sluice_problems problems = {0};
	struct sluice_policy *policy = NULL;
	struct sl_failure failure = {.kind = SL_FAILED_POLICY};
	const char *text;
	Py_ssize_t len;
	if (!PyArg_ParseTuple(args, "s#", &text, &len))
		return NULL;
	yaml = sl_slice(text, (size_t)len);
	sluice_err err = sluice_policy_load(&policy, yaml, &problems);
	for (size_t i = 0; err != SLUICE_OK && i < problems.count && failure.text[0] == '\0'; i++)
		if (!problems.list[i].warning)
			memcpy(failure.text, problems.list[i].text, sizeof problems.list[i].text);
	sluice_problems_free(&problems);
	if (err != SLUICE_OK)
		return raise_failure(core, &failure);
	struct proxies *made = PyObject_New(struct proxies, core->proxies);
	if (made == NULL)
		sluice_policy_free(policy);
	else
		made->policy = policy;
	return (PyObject *)made;
}

enum { LINES_MAX = 64 };

/* client(peer, lines, forwarded): the address of the client as it counts, IPv6 as its network. None as the peer is a
 * unix socket, which is believed; a peer that is no address stays what it is. */
static PyObject *proxies_client(PyObject *self, PyObject *args) {
	const struct sluice_policy *policy = ((struct proxies *)self)->policy;
	PyObject *peer, *list;
	int rfc7239;
	struct sluice_bytes lines[LINES_MAX], text = {NULL, 0};
	struct sl_address address;
	char key[SL_ADDRESS_TEXT_MAX];
	if (!PyArg_ParseTuple(args, "OO!p", &peer, &PyList_Type, &list, &rfc7239))
		return NULL;
	bool known = peer != Py_None && bytes_of(peer, &text) && sl_address_parse(text, &address, NULL);
	bool trusted = peer == Py_None || (known && sl_policy_trusts(policy, &address));
	Py_ssize_t count = PyList_Size(list);
	/* the last ones stand nearest to us */
	for (Py_ssize_t i = count < LINES_MAX ? 0 : count - LINES_MAX, n = 0; i < count; i++, n++)
		if (!bytes_of(PyList_GetItem(list, i), &lines[n]))
			return PyErr_Format(PyExc_TypeError, "expected a list of texts");
	if (trusted && count != 0 &&
	    sl_forwarded_client(lines, (uint32_t)(count < LINES_MAX ? count : LINES_MAX),
	                        rfc7239 != 0 ? SL_FORWARDED_RFC7239 : SL_FORWARDED_FOR, policy, &address))
		known = true;
	if (!known)
		return peer == Py_None ? PyUnicode_FromString("") : (Py_INCREF(peer), peer);
	size_t len = sl_address_key(&address, sl_policy_settings(policy)->ipv6_prefix, key);
	return PyUnicode_FromStringAndSize(key, (Py_ssize_t)len);
}

static PyMethodDef proxies_methods[] = {
	{"client", proxies_client, METH_VARARGS, NULL},
	{NULL, NULL, 0, NULL},
};

static PyType_Slot proxies_slots[] = {
	{Py_tp_new, refuse_new},
	{Py_tp_dealloc, proxies_dealloc},
	{Py_tp_methods, proxies_methods},
	{0, NULL},
};

PyType_Spec proxies_spec = {"sluice._core.Proxies", sizeof(struct proxies), 0, Py_TPFLAGS_DEFAULT, proxies_slots};
