-- What is held of a counter: cost that no one else gets, until it is charged, dropped or its time has passed. A hold
-- that ends is forgotten; a lease, which a front spends from, is charged in full at its end, for what was spent of it
-- is not known. The ids of the two are apart. A counter of which nothing is held never comes here.
--
-- Kept beside the counter, in the field "!" and its name, ordered by end (then by id, so that the order is the same
-- wherever it is made), 29 bytes each: d end, I4 cost, B 1 of a lease, 16 hex digits of the id.
local numbers, counter = need('numbers'), need('counter')
local holds = {most = 256}
local BYTES = 29

-- The place in a list of the hold (or lease) of an id, or nil.
local function find(list, id, lease)
	for i, one in ipairs(list) do
		if one.id == id and one.lease == lease then
			return i
		end
	end
end

local function before(a, b)
	if a.ends ~= b.ends then
		return a.ends < b.ends
	end
	return a.id < b.id or a.id == b.id and b.lease and not a.lease
end

-- Takes the hold (or lease) of an id out of a counter and returns it, or nil.
function holds.take(c, id, lease)
	local at = c.holds and find(c.holds, id, lease)
	if at then
		local one = table.remove(c.holds, at)
		c.held, c.leased = c.held - one.cost, c.leased - (lease and one.cost or 0)
		return one
	end
end

function holds.put(c, one)
	local list = c.holds or {}
	local at = #list + 1
	while at > 1 and before(one, list[at - 1]) do
		at = at - 1
	end
	table.insert(list, at, one)
	c.holds, c.held, c.leased = list, c.held + one.cost, c.leased + (one.lease and one.cost or 0)
end

-- What a counter's field has become when one of its holds has ended: a lease is charged.
local function let_end(c, limit, raw, one)
	if one.lease then
		return limit.steps.charge(limit, limit.steps.view(limit, raw, one.ends, 0, c), one.cost, true)
	end
	return raw
end

-- Gives a counter what is held of it, and ends what has ended by now.
function holds.open(c, now)
	local raw, limit, list = c.stored_holds, c.limit, {}
	local v = counter.view(c, limit, {now = now, us = 0})
	for at = 1, #raw, BYTES do
		if at + BYTES - 1 > #raw then
			need('errors').damaged('!' .. c.field, 'was changed')
		end
		local ends, cost, lease, id = struct.unpack('<dI4Bc16', raw, at)
		local one = {ends = ends, cost = cost, lease = lease == 1, id = id}
		if not numbers.sound(ends) then
			need('errors').damaged('!' .. c.field, 'was changed')
		elseif ends <= v.t then
			c.raw = let_end(c, limit, c.raw, one)
		else
			list[#list + 1] = one
			c.held, c.leased = c.held + cost, c.leased + (one.lease and cost or 0)
		end
	end
	c.holds = list
end

-- The instants at which a lease ends, with `all` also a hold, one after the other: calls
-- `try(raw, held, from, until)` with the field that stands from the one to the other (nil: for good), until it returns
-- something.
local function walk(c, limit, from, all, try)
	local raw, held = c.raw, all and c.held or c.leased
	for _, one in ipairs(c.holds) do
		if all or one.lease then
			local found, more = try(raw, held, from, one.ends)
			if found then
				return found, more
			end
			raw, held, from = let_end(c, limit, raw, one), held - one.cost, math.max(from, one.ends)
		end
	end
	return try(raw, held, from)
end

-- The wait until a denied cost is admitted if nothing else arrives and leases end by themselves; -1: never. A hold is
-- charged or dropped long before its end, and no wait tells of it as if it were to last: what would fit but for holds
-- fits in a moment. And by how many nanoseconds it was rounded up to whole milliseconds; and whether only holds are in
-- the way.
function holds.retry(c, limit, v, cost, us)
	local steps = limit.steps
	if cost > limit.capacity then
		return -1, 0
	elseif c.held > c.leased and cost + c.leased <= v.room then
		return 1, 0, true
	end
	return walk(c, limit, v.t, false, function(raw, held, from, upto)
		local want = cost + held
		if want <= limit.capacity then
			local there, wait, over = steps.view(limit, raw, from, from == v.t and us or 0, c), 0, 0
			if want > there.room then
				wait, over = steps.retry(limit, there, want)
			end
			if not upto or from + wait <= upto then
				return from + wait - v.t, over
			end
		end
	end)
end

-- The wait until the whole quota is there.
function holds.reset(c, limit, v)
	return (walk(c, limit, v.t, false, function(raw, _, from, upto)
		return not upto and from - v.t + limit.steps.reset(limit, limit.steps.view(limit, raw, from, 0, c))
	end))
end

-- Puts what is held of a counter after fields[at], to be written, or into those to delete; how many there are in
-- `fields` then, and the instant from which on nothing of the counter matters.
function holds.save(c, fields, at, gone)
	local limit = c.limit
	if c.holds[1] then
		local parts = {}
		for i, one in ipairs(c.holds) do
			parts[i] = struct.pack('<dI4Bc16', one.ends, one.cost, one.lease and 1 or 0, one.id)
		end
		fields[at + 1], fields[at + 2] = '!' .. c.field, table.concat(parts)
		at = at + 2
	elseif c.stored_holds then
		gone[#gone + 1] = '!' .. c.field
	end
	return at, (walk(c, limit, 0, true, function(raw, _, from, upto)
		return not upto and math.max(from, need('expiry').ends(limit, limit.steps.view(limit, raw, 0, 0, c)))
	end))
end

return holds
