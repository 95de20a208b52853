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

-- How much longer a key lives where the caller sets the instants: they need not pass as the server's clock does.
local CLIENT_TIME_SLACK = 3600000
local FIELDS_MOST = 1000

-- ---- reading -------------------------------------------------------------------------------------------------------

-- A counter, before it is opened: `limit` is one that counts in it, `s` its state, `ends` when what Redis holds of that
-- is over (false: it holds none), `held` the cost that is held of it. `taken` becomes the item for which a call took
-- cost, `charged` whether the state is another, `changed` whether something is to be written. Where Redis has holds of
-- it there is `raw_holds`, and `holds`, the list.
local function new(key, field, limit)
	return {key = key, field = field, limit = limit, s = false, ends = false, held = 0, charged = false, taken = false}
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

-- The fields of a key; an error of Redis is the caller's answer, word for word.
local function read_fields(key, ...)
	local raw = redis.pcall('HMGET', key, ...)
	if raw.err then
		error({sluice = raw.err}, 0)
	end
	return raw
end

-- Reads the counters of one key, that of items[from], behind those that are in `counters`.
local function load_key(counters, items, from, now)
	local key, fields, by_field, first = items[from].key, {}, {}, #counters
	for i = from, #items do
		local item = items[i]
		local field = item.field
		if field and item.key == key then
			local c = by_field[field]
			if not c then
				c = new(key, field, item.limit)
				by_field[field] = c
				counters[#counters + 1] = c
				fields[#fields + 1] = field
				fields[#fields + 1] = '!' .. field
			end
			item.counter = c
		end
	end
	local raw = read_fields(key, unpack(fields))
	for i = first + 1, #counters do
		local at = 2 * (i - first)
		open(counters[i], raw[at - 1], raw[at], now)
	end
end

-- The counters of a call, one for all items that meet, those of one key together; each item gets its `counter`, but
-- for one that is unlimited. Refuses a counter whose fields nobody here wrote, unless it is to be forgotten.
local function load(call, forget)
	local items, counters, now = call.items, {}, call.now
	local only = items[1]
	if not items[2] and only.field then
		local c = new(only.key, only.field, only.limit)
		local raw = read_fields(c.key, c.field, '!' .. c.field)
		only.counter, counters[1] = c, c
		open(c, raw[1], raw[2], now)
	else
		for i = 1, #items do
			if items[i].field and not items[i].counter then
				load_key(counters, items, i, now)
			end
		end
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

-- A command on many fields, in pieces that fit Lua's stack.
local function in_pieces(command, key, fields)
	for from = 1, #fields, FIELDS_MOST do
		redis.call(command, key, unpack(fields, from, math.min(from + FIELDS_MOST - 1, #fields)))
	end
end

-- Moves the key's expiry to the instant, unless it is later already.
local function keep_until(key, ends, call)
	local left = redis.call('PTTL', key)
	local life = ends - call.now
	if call.set then
		life = life + CLIENT_TIME_SLACK
	end
	if left >= life then
		return
	elseif call.set then
		redis.call('PEXPIRE', key, string.format('%.0f', life))
	else
		redis.call('PEXPIREAT', key, string.format('%.0f', ends))
	end
end

-- Writes what was changed of the counters counters[from..upto], which are of one key, and keeps the key until they
-- matter no more.
local function save_key(counters, from, upto, call)
	local key, fields, gone, ends = counters[from].key, {}, {}, 0
	for i = from, upto do
		local c = counters[i]
		if c.changed or c.taken then
			local way, s, written = c.limit.way, c.s, #fields
			local until_then
			if c.charged then
				fields[written + 1], fields[written + 2] = c.field, way.encode(s)
				if way.changes then
					way.changes(s, fields, gone)
				end
			end
			if c.holds or c.raw_holds then
				until_then = need('holds').save(c, fields, gone)
			else
				until_then = way.ends(c.limit, s)
			end
			if #fields > written and until_then ~= c.ends and until_then > ends then
				ends = until_then
			end
		end
	end
	in_pieces('HSET', key, fields)
	in_pieces('HDEL', key, gone)
	if ends > 0 then
		keep_until(key, ends, call)
	end
end

-- Writes what was changed of the counters of a call.
local function save(counters, call)
	local count, from = #counters, 1
	local c = counters[1]
	if count == 1 and c.taken and c.charged and not c.holds and not c.raw_holds and not c.limit.way.changes then
		local way, s = c.limit.way, c.s
		redis.call('HSET', c.key, c.field, way.encode(s))
		local ends = way.ends(c.limit, s)
		if ends ~= c.ends then
			keep_until(c.key, ends, call)
		end
		return
	end
	for i = 1, count do
		if i == count or counters[i + 1].key ~= c.key then
			save_key(counters, from, i, call)
			from, c = i + 1, counters[i + 1]
		end
	end
end

return {new = new, open = open, load = load, in_pieces = in_pieces, save = save}
