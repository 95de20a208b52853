-- What is held of a counter: cost that no one else gets, until it is charged, dropped or its time has passed. A hold
-- that ends is forgotten; a lease, which a front spends from, is charged in full at its end, for what was spent of it
-- is not known. The ids of the two are apart. Kept beside the counter, in the field "!" and its name, ordered by end
-- (then by id, so that the order is the same wherever it is made): 29 bytes each. A counter of which nothing is held
-- never comes here.
local numbers = need('numbers')
local holds = {most = 256}
local BYTES = 29

local function decode(raw)
	if #raw % BYTES ~= 0 then
		return nil
	end
	local list = {}
	for at = 1, #raw, BYTES do
		local ends, cost, lease, id = struct.unpack('<dI4Bc16', raw, at)
		if not numbers.sound(ends) then
			return nil
		end
		list[#list + 1] = {ends = ends, cost = cost, lease = lease == 1, id = id}
	end
	return list
end

local function encode(list)
	local parts = {}
	for i, one in ipairs(list) do
		parts[i] = struct.pack('<dI4Bc16', one.ends, one.cost, one.lease and 1 or 0, one.id)
	end
	return table.concat(parts)
end

-- Removes the hold (or lease) of an id and returns it, or nil.
function holds.remove(list, id, lease)
	for i, one in ipairs(list) do
		if one.id == id and one.lease == lease then
			return table.remove(list, i)
		end
	end
end

local function before(a, b)
	if a.ends ~= b.ends then
		return a.ends < b.ends
	end
	return a.id < b.id or a.id == b.id and b.lease and not a.lease
end

function holds.insert(list, one)
	local at = #list + 1
	while at > 1 and before(one, list[at - 1]) do
		at = at - 1
	end
	table.insert(list, at, one)
end

-- ---- what is held of a counter of a call ---------------------------------------------------------------------------

-- Lets the oldest hold of a list end: a lease is charged.
local function let_end(limit, way, s, list)
	local one = table.remove(list, 1)
	if one.lease then
		way.charge(limit, s, way.view(limit, s, one.ends, 0), one.cost, true)
	end
	return one.cost
end

-- Gives a counter what is held of it, and ends what has ended by now.
function holds.open(c, raw, now)
	local list = decode(raw)
	c.raw_holds = raw
	if not list then
		c.damaged = true
		return
	end
	local t, sum, leased = math.max(now, c.s.last), 0, 0
	while list[1] and list[1].ends <= t do
		c.charged = c.charged or list[1].lease
		let_end(c.limit, c.limit.way, c.s, list)
	end
	for _, one in ipairs(list) do
		sum = sum + one.cost
		leased = leased + (one.lease and one.cost or 0)
	end
	c.holds, c.held, c.leased = list, sum, leased
end

-- The instants at which a lease ends, with `all` also a hold, one after the other: calls
-- `try(state, held, from, until)` with the state that stands from the one to the other (nil: for good), until it
-- returns something.
local function walk(c, limit, from, all, try)
	local s, list, held = c.limit.way.clone(c.s), {}, all and c.held or c.leased
	for _, one in ipairs(c.holds or {}) do
		if all or one.lease then
			list[#list + 1] = one
		end
	end
	while true do
		local upto = list[1] and list[1].ends
		local found, more = try(s, held, from, upto)
		if found or not upto then
			return found, more
		end
		held = held - let_end(limit, c.limit.way, s, list)
		from = math.max(from, upto)
	end
end

-- The wait until a denied cost is admitted if nothing else arrives and leases end by themselves; -1: never. A hold is
-- charged or dropped long before its end, and no wait tells of it as if it were to last: what would fit but for holds
-- fits in a moment. And by how many nanoseconds it was rounded up to whole milliseconds, if `finely` is set; and
-- whether only holds are in the way.
function holds.retry(c, limit, v, cost, us, finely)
	local way = limit.way
	if cost > limit.capacity then
		return -1, 0
	elseif c.held > c.leased and cost + c.leased <= v.room then
		return 1, 0, true
	end
	return walk(c, limit, v.t, false, function(s, held, from, upto)
		local want = cost + held
		if want <= limit.capacity then
			local there = way.view(limit, s, from, from == v.t and us or 0)
			local fits = want <= there.room
			local wait = fits and 0 or way.retry(limit, there, want)
			if not upto or from + wait <= upto then
				local over = finely and not fits and way.rounded_up and way.rounded_up(limit, there, want) or 0
				return from + wait - v.t, over
			end
		end
	end)
end

-- The wait until the whole quota is there.
function holds.reset(c, limit, v)
	return (walk(c, limit, v.t, false, function(s, _, from, upto)
		if not upto then
			return from - v.t + c.limit.way.reset(limit, c.limit.way.view(limit, s, from, 0))
		end
	end))
end

-- The instant from which on nothing of a counter matters.
local function ends_of(c)
	if not c.holds or not c.holds[1] then
		return c.limit.way.ends(c.limit, c.s)
	end
	return (walk(c, c.limit, c.s.last, true, function(s, _, from, upto)
		return not upto and math.max(from, c.limit.way.ends(c.limit, s)) or nil
	end))
end

-- Puts what is held of a counter into the fields to write, or to delete; the instant from which on nothing matters.
function holds.save(c, fields, gone)
	if c.holds and c.holds[1] then
		fields[#fields + 1] = '!' .. c.field
		fields[#fields + 1] = encode(c.holds)
	elseif c.raw_holds then
		gone[#gone + 1] = '!' .. c.field
	end
	return ends_of(c)
end

return holds
