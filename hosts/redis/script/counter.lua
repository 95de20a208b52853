-- A counter of a call: its state, what is held of it, and where both are kept. A limiter key is a hash; a counter is
-- the field that says whose it is:
--
--   kind window [/ W/P] [* rate] [@ name]     W60000   S3600000/60   T1000*10   L60000@login   C60000*30 (CL.THROTTLE)
--
-- with its holds in "!" and that name, and the chunks of a series in "#n#" and that name. Names stand last, so no two
-- counters have one field, and no counter's field begins like the other two.
--
-- Reading comes first, for all counters of a call; then deciding, in memory; then writing, for those that changed.
-- What time alone has done (leases that ended) is done again by every reader, and written with the next change.
local numbers, errors, holds = need('numbers'), need('errors'), need('holds')
local counter = {}

local FILES = {F = 'window', W = 'window', S = 'buckets', L = 'log', T = 'bucket', C = 'bucket', K = 'bucket'}
-- How much longer a key lives where the caller sets the instants: they need not pass as the server's clock does.
local CLIENT_TIME_SLACK = 3600000

local function way_of(kind)
	return need(FILES[kind])
end
counter.way_of = way_of

function counter.field(limit, name)
	local field = limit.kind .. numbers.text(limit.window)
	if limit.parts then
		field = field .. '/' .. numbers.text(limit.parts)
	end
	if name then
		return field .. '@' .. name
	end
	return limit.burst and field .. '*' .. numbers.text(limit.quota) or field
end

-- Calls a Redis command; an error of it is the caller's answer, word for word.
local function ask(...)
	local reply = redis.pcall(...)
	if type(reply) == 'table' and reply.err then
		error({sluice = reply.err}, 0)
	end
	return reply
end
counter.ask = ask

-- The counters of `items` (each with key, field and limit), one for all that meet, read from Redis; each item gets its
-- `counter`.
function counter.load(items, now, us)
	local only = items[1]
	if not items[2] and only.limit.kind ~= 'U' then
		local c = {key = only.key, field = only.field, limit = only.limit, way = way_of(only.limit.kind)}
		local raw = ask('HMGET', c.key, c.field, '!' .. c.field)
		only.counter = c
		counter.open(c, raw[1], raw[2], now, us)
		return {c}
	end
	local counters, by_key, keys = {}, {}, {}
	for _, item in ipairs(items) do
		local limit = item.limit
		if limit.kind ~= 'U' then
			local mine = by_key[item.key]
			if not mine then
				mine = {fields = {}, list = {}}
				by_key[item.key] = mine
				keys[#keys + 1] = item.key
			end
			local c = mine[item.field]
			if not c then
				c = {key = item.key, field = item.field, limit = limit, way = way_of(limit.kind)}
				mine[item.field] = c
				mine.list[#mine.list + 1] = c
				mine.fields[#mine.fields + 1] = item.field
				mine.fields[#mine.fields + 1] = '!' .. item.field
				counters[#counters + 1] = c
			end
			item.counter = c
		end
	end
	for _, key in ipairs(keys) do
		local mine = by_key[key]
		local raw = ask('HMGET', key, unpack(mine.fields))
		for i, c in ipairs(mine.list) do
			counter.open(c, raw[2 * i - 1], raw[2 * i], now, us)
		end
	end
	return counters
end

-- The state of a counter from what Redis holds of it: strings, or false.
function counter.open(c, state, held, now, us)
	c.raw, c.raw_holds, c.holds, c.held = state, held, nil, 0
	if state then
		c.s = c.way.decode(state, c.key, c.field)
		if not c.s or held and not holds.decode(held) then
			c.damaged = true
			return
		end
		c.ends = c.way.ends(c.limit, c.s)
	else
		c.s = c.way.fresh()
	end
	if c.way.changes then
		c.s.key, c.s.field = c.key, c.field
	end
	if held then
		c.holds = holds.decode(held)
		counter.settle(c, now, us)
	end
end

-- Refuses a counter whose fields nobody here wrote.
function counter.check(c)
	if c.damaged then
		errors.raise('ERR the key holds a damaged counter: its field ' .. errors.shown(c.field) ..
			' was changed; SLUICE.RESET forgets it')
	end
end

-- Lets the oldest hold of a list end: a lease is charged.
local function let_end(limit, way, s, list)
	local one = table.remove(list, 1)
	if one.lease then
		way.charge(limit, s, way.view(limit, s, one.ends, 0), one.cost)
	end
	return one.cost
end

-- Ends what has ended by now.
function counter.settle(c, now)
	local t = math.max(now, c.s.last)
	while c.holds[1] and c.holds[1].ends <= t do
		c.charged = c.charged or c.holds[1].lease
		let_end(c.limit, c.way, c.s, c.holds)
	end
	c.held = holds.sum(c.holds)
end

-- The instants at which something held ends, one after the other: calls `try(state, held, from, until)` with the state
-- that stands from the one to the other (nil: for good), until it returns something.
local function walk(c, limit, from, try)
	local s, list, held = c.way.clone(c.s), {}, c.held
	for i, one in ipairs(c.holds or {}) do
		list[i] = one
	end
	while true do
		local upto = list[1] and list[1].ends
		local found = try(s, held, from, upto)
		if found or not upto then
			return found
		end
		held = held - let_end(limit, c.way, s, list)
		from = math.max(from, upto)
	end
end

-- The wait until a denied cost is admitted if nothing else arrives and what is held ends by itself; -1: never.
function counter.retry(c, limit, v, cost, us)
	local way = c.way
	if cost > limit.capacity then
		return -1
	elseif c.held == 0 then
		return way.retry(limit, v, cost)
	end
	return walk(c, limit, v.t, function(s, held, from, upto)
		local want = cost + held
		if want <= limit.capacity then
			local there = way.view(limit, s, from, from == v.t and us or 0)
			local wait = want <= there.room and 0 or way.retry(limit, there, want)
			if not upto or from + wait <= upto then
				return from + wait - v.t
			end
		end
	end)
end

-- The wait until the whole quota is there.
function counter.reset(c, limit, v)
	if c.held == 0 then
		return c.way.reset(limit, v)
	end
	return walk(c, limit, v.t, function(s, _, from, upto)
		if not upto then
			return from - v.t + c.way.reset(limit, c.way.view(limit, s, from, 0))
		end
	end)
end

-- The instant from which on nothing of a counter matters.
local function ends_of(c)
	if not c.holds or not c.holds[1] then
		return c.way.ends(c.limit, c.s)
	end
	return walk(c, c.limit, c.s.last, function(s, _, from, upto)
		return not upto and math.max(from, c.way.ends(c.limit, s)) or nil
	end)
end

-- ---- writing -------------------------------------------------------------------------------------------------------

local FIELDS_MOST = 1000

-- A command on many fields, in pieces that fit Lua's stack.
local function in_pieces(command, key, fields)
	for from = 1, #fields, FIELDS_MOST do
		redis.call(command, key, unpack(fields, from, math.min(from + FIELDS_MOST - 1, #fields)))
	end
end

-- Moves the key's expiry to the instant, unless it is later already.
local function keep_until(key, ends, clock)
	local left = redis.call('PTTL', key)
	local life = ends - clock.now
	if clock.set then
		life = life + CLIENT_TIME_SLACK
	end
	if left >= life then
		return
	elseif clock.set then
		redis.call('PEXPIRE', key, numbers.text(life))
	else
		redis.call('PEXPIREAT', key, numbers.text(ends))
	end
end

-- Writes what was changed of a counter, and keeps its key until it matters no more.
function counter.save(c, clock)
	if c.charged and not c.raw_holds and not c.holds and not c.way.changes then
		redis.call('HSET', c.key, c.field, c.way.encode(c.s))
		local ends = c.way.ends(c.limit, c.s)
		if ends ~= c.ends then
			keep_until(c.key, ends, clock)
		end
		return
	end
	local fields, gone = {}, {}
	if c.charged then
		fields[1], fields[2] = c.field, c.way.encode(c.s)
		if c.way.changes then
			c.way.changes(c.s, fields, gone)
		end
	end
	if c.holds and c.holds[1] then
		fields[#fields + 1] = '!' .. c.field
		fields[#fields + 1] = holds.encode(c.holds)
	elseif c.raw_holds then
		gone[#gone + 1] = '!' .. c.field
	end
	if fields[1] then
		in_pieces('HSET', c.key, fields)
	end
	in_pieces('HDEL', c.key, gone)
	local ends = ends_of(c)
	if fields[1] and ends ~= c.ends then
		keep_until(c.key, ends, clock)
	end
end

-- Forgets a counter; whether there was one: a state, or something held that has not ended.
function counter.forget(c)
	if not c.raw and not c.raw_holds then
		return false
	end
	local was = c.raw or c.charged or c.holds and c.holds[1]
	local gone = {c.field, '!' .. c.field}
	if c.way.changes and c.s and not c.damaged then
		for n = c.s.first, c.s.tail - 1 do
			gone[#gone + 1] = c.way.chunk_field(c.s, n)
		end
	end
	in_pieces('HDEL', c.key, gone)
	return was and true or false
end

return counter
