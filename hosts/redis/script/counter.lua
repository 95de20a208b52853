-- A counter of a call: its state, what is held of it, and where both are kept. A limiter key is a hash; a counter is
-- the field that says whose it is (notation.field):
--
--   kind window [/ W/P] [* rate] [@ name]     W60000   S3600000/60   T1000*10   L60000@login   C60000*30 (CL.THROTTLE)
--
-- with its holds in "!" and that name, and the chunks of a series in "#n#" and that name. Names stand last, so no two
-- counters have one field, and no counter's field begins like the other two.
--
-- Reading comes first, for all counters of a call, one HMGET a key; then deciding, in memory; then writing, one HSET a
-- key, for those that changed. What time alone has done (leases that ended) is done again by every reader, and written
-- with the next change.

-- ---- reading -------------------------------------------------------------------------------------------------------

-- A counter, before it is opened: `limit` is one that counts in it, `s` its state, `ends` when what Redis holds of that
-- is over (false: it holds none), `held` the cost that is held of it, `leased` what of that lasts. `taken` becomes the
-- item for which a call took cost, `charged` whether the state is another, `changed` whether something is to be
-- written. Where Redis has holds of it there is `raw_holds`, and `holds`, the list.
local function new(key, field, limit)
	return {key = key, field = field, limit = limit, s = false, ends = false, held = 0, leased = 0, charged = false,
		taken = false}
end

-- The state of a counter from what Redis holds of it: strings, or false.
local function open(c, state, held, now)
	local limit, s = c.limit, nil
	local way = limit.way
	if state then
		s = way.decode(state, c.key, c.field)
		if not s then
			c.damaged, c.ends = true, 0
			return
		end
		c.ends = way.ends(limit, s)
	else
		s = way.fresh(c.key, c.field)
	end
	c.s = s
	if held then
		need('holds').open(c, held, now)
	end
end

-- The counters of a call, one for all items that meet, those of one key together; each item gets its `counter`, but
-- for one that is unlimited. Refuses a counter whose fields nobody here wrote, unless it is to be forgotten.
local function load(call, forget)
	local items, counters, now = call.items, {}, call.now
	local only = items[1]
	if items[2] then
		need('several').load(items, counters, now)
	elseif only.field then
		local c = new(only.key, only.field, only.limit)
		local raw = redis.pcall('HMGET', c.key, c.field, only.holds_field)
		if raw.err then
			error({sluice = raw.err}, 0)
		end
		only.counter, counters[1] = c, c
		open(c, raw[1], raw[2], now)
	end
	for i = 1, #counters do
		if counters[i].damaged and not forget then
			local errors = need('errors')
			errors.raise('ERR the key holds a damaged counter: its field ' .. errors.shown(counters[i].field) ..
				' was changed; SLUICE.RESET forgets it')
		end
	end
	return counters
end

-- ---- writing -------------------------------------------------------------------------------------------------------

-- Writes what was changed of the counters of a call.
local function save(counters, call)
	local c = counters[1]
	if counters[2] or c and (c.holds or c.raw_holds or c.limit.way.changes) then
		need('several').save(counters, call)
	elseif c and c.charged and (c.taken or c.changed) then
		local way, s = c.limit.way, c.s
		need('room').write(call, c.key, c.field, way.encode(s))
		local ends = way.ends(c.limit, s)
		if ends ~= c.ends then
			need('expiry')(c.key, ends, call.now, call.set)
		end
	end
end

return {new = new, open = open, load = load, save = save}
