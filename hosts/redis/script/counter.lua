-- The counters of a call: read, and written. A limiter key is a hash; a counter is the field that says whose it is
-- (notation.lua):
--
--   kind window [/ W/P] [* rate] [@ name]     W60000   S3600000/60   T1000*10   L60000@login
--
-- with its holds in "!" and that name, and the chunks of a series in "#n#" and that name. Names stand last, so no two
-- counters have one field, and no counter's field begins like the other two. Fields of other kinds are left alone, and
-- go with the key.
--
-- Reading comes first, for all counters of a call, one HMGET a key; then deciding, in memory; then writing, one HSET a
-- key, for those that changed. What time alone has done (leases that ended) is done again by every reader, and written
-- with the next change.
--
-- A counter: `key`, `field`, `limit`, one that counts in it; `stored`, what Redis holds (false: nothing), and `raw`,
-- what it has become; `held`, the cost that is held of it, and `leased`, what of that lasts; `taken`, the item for
-- which the call took cost; `changed`, whether it is to be written, and `ends`, until when its key has to live then.
-- Where Redis has holds of it there is `stored_holds`, and `holds`, the list.
local expiry = need('expiry')
local FIELDS_MOST = 1000

-- The counter of an item before items[upto] that has the same one, or nil.
local function met(items, upto)
	local key, field = items[upto].key, items[upto].field
	for i = 1, upto - 1 do
		if items[i].field == field and items[i].key == key then
			return items[i].counter
		end
	end
end

-- Reads the counters of one key, that of items[from], after those that are in `counters`; how many there are then.
local function load_key(items, counters, count, from)
	local key, first, fields = items[from].key, count, {false, false, false, false, false, false, false, false}
	for i = from, #items do
		local item = items[i]
		if item.field and item.key == key then
			local c = met(items, i)
			if not c then
				c = {key = key, field = item.field, limit = item.limit, stored = false, raw = false,
					stored_holds = false, holds = false, held = 0, leased = 0, taken = false, changed = false, ends = 0}
				count = count + 1
				local at = 2 * (count - first)
				counters[count], fields[at - 1], fields[at] = c, item.field, item.held_field
			end
			item.counter = c
		end
	end
	local found = redis.pcall('HMGET', key, unpack(fields, 1, 2 * (count - first)))
	if found.err then
		error({sluice = found.err}, 0)
	end
	for i = first + 1, count do
		local c, at = counters[i], 2 * (i - first)
		c.stored, c.raw, c.stored_holds = found[at - 1], found[at - 1], found[at]
	end
	return count
end

-- Reads the counters of a call, one for all items that meet, those of one key together; each item gets its `counter`,
-- but for one that is unlimited. Those to be forgotten (`forget`) are left as they are.
local function load(call, forget)
	local items, counters, count = call.items, {}, 0
	for i = 1, #items do
		if items[i].field and not items[i].counter then
			count = load_key(items, counters, count, i)
		end
	end
	for i = 1, count do
		if counters[i].stored_holds and not forget then
			need('holds').open(counters[i], call.now)
		end
	end
	return counters
end

-- How a counter stands for a limit.
local function view(c, limit, call)
	return limit.steps.view(limit, c.raw, call.now, call.us, c) or need('errors').damaged(c.field, 'was changed')
end

-- Charges cost to a counter, for a limit for which it stands as in `v`.
local function charge(c, limit, v, cost)
	local before = c.stored and expiry.ends(limit, v)
	c.raw, c.limit, c.changed = limit.steps.charge(limit, v, cost), limit, true
	local after = expiry.ends(limit, v)
	if after ~= before and after > c.ends then
		c.ends = after
	end
end

-- ---- writing -------------------------------------------------------------------------------------------------------

-- Writes fields; where Redis has no memory, nothing was written yet, and the call is begun anew, knowing it (room.lua).
-- For Redis lets a script write on that has written before, and to delete a field that nobody has is a write, too.
local function write(call, key, ...)
	if call.full and not call.wrote then
		redis.call('HDEL', key, '')
		call.wrote = true
	end
	local reply = redis.pcall('HSET', key, ...)
	local why = type(reply) == 'table' and reply.err
	if why then
		error(why:find('OOM command', 1, true) and not call.full and {full = true} or {sluice = why}, 0)
	end
end

-- Many fields, in pieces that fit Lua's stack.
local function delete(key, fields)
	for from = 1, #fields, FIELDS_MOST do
		redis.call('HDEL', key, unpack(fields, from, math.min(from + FIELDS_MOST - 1, #fields)))
	end
end

-- Writes what has changed of counters[from..upto], which are of one key.
local function save_key(call, counters, from, upto)
	local key, fields, gone, latest, there, at = counters[from].key, nil, {}, 0, false, 0
	for i = from, upto do
		local c = counters[i]
		there = there or c.stored or c.stored_holds
		if c.changed then
			local steps = c.limit.steps
			fields = fields or {false, false, false, false, false, false}
			if c.raw and c.raw ~= c.stored then
				fields[at + 1], fields[at + 2] = c.field, c.raw
				at = at + 2
				if steps.changes then
					at = steps.changes(c, c.stored, c.raw, fields, at, gone)
				end
			end
			if c.holds then
				at, c.ends = need('holds').save(c, fields, at, gone)
			end
			latest = c.ends > latest and c.ends or latest
		end
	end
	local ttl = latest > 0 and not there and redis.call('PTTL', key)
	for first = 1, at, FIELDS_MOST do
		write(call, key, unpack(fields, first, math.min(first + FIELDS_MOST - 1, at)))
	end
	if gone[1] then
		delete(key, gone)
	end
	if latest > 0 then
		expiry.keep(key, latest, call.now, call.set, ttl)
	end
end

-- Writes what has changed of the counters of a call.
local function save(call, counters)
	local from, count = 1, #counters
	for i = 1, count do
		if i == count or counters[i + 1].key ~= counters[i].key then
			save_key(call, counters, from, i)
			from = i + 1
		end
	end
end

return {load = load, view = view, charge = charge, write = write, delete = delete, save = save}
