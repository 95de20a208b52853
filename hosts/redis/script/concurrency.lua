-- concurrency: at most N in flight. A counter is a list of leases: id, end, cost. One that nobody releases ends T after
-- it was acquired or renewed; until then it is held. A step is told whose lease is asked for in v.who (whose.lua).
local numbers = need('numbers')
local BYTES = 28

local function fresh()
	return {last = 0, list = {}}
end

local function decode(raw)
	if #raw < 8 or (#raw - 8) % BYTES ~= 0 then
		return nil
	end
	local s = {last = struct.unpack('<d', raw), list = {}}
	for at = 9, #raw, BYTES do
		local ends, cost, id = struct.unpack('<dI4c16', raw, at)
		if not numbers.sound(ends) then
			return nil
		end
		s.list[#s.list + 1] = {ends = ends, cost = cost, id = id}
	end
	return numbers.sound(s.last) and s or nil
end

local function encode(s)
	local parts = {struct.pack('<d', s.last)}
	for i, one in ipairs(s.list) do
		parts[i + 1] = struct.pack('<dI4c16', one.ends, one.cost, one.id)
	end
	return table.concat(parts)
end

-- How the counter stands at `now`; `live` are the leases that are held, those that end first first.
local function view(limit, s, now)
	local t, live, held = math.max(now, s.last), {}, 0
	for _, one in ipairs(s.list) do
		if one.ends > t then
			live[#live + 1] = one
			held = held + one.cost
		end
	end
	table.sort(live, function(a, b)
		return a.ends < b.ends or a.ends == b.ends and a.id < b.id
	end)
	return {t = t, live = live, held = held, room = math.max(0, limit.quota - held)}
end

-- The place of a lease among those that are held, or nil.
local function find(v, id)
	for i, one in ipairs(v.live) do
		if one.id == id then
			return i
		end
	end
end

-- The wait until so many have ended that a denied cost fits.
local function retry(limit, v, cost)
	local held = v.held
	for _, one in ipairs(v.live) do
		held = held - one.cost
		if held + cost <= limit.quota then
			return one.ends - v.t
		end
	end
end

local function reset(_, v)
	local last = v.live[#v.live]
	return last and last.ends - v.t or 0
end

local function charge(limit, s, v, cost)
	if not v.known then
		v.live[#v.live + 1] = {ends = v.t + limit.window, cost = cost, id = v.who}
		v.held, v.room = v.held + cost, v.room - cost
	end
	s.last, s.list = v.t, v.live
end

-- Ends a lease, or lets it end T from now (`renews`); whether it is held.
local function change(limit, s, v, id, renews)
	local at = find(v, id)
	if at and renews then
		v.live[at].ends = v.t + limit.window
		s.last = v.t
	elseif at then
		table.remove(v.live, at)
	end
	s.list = v.live
	return at ~= nil
end

-- The instant from which on the state says what none says.
local function ends(_, s)
	local most = s.last
	for _, one in ipairs(s.list) do
		most = math.max(most, one.ends)
	end
	return most
end

return {fresh = fresh, decode = decode, encode = encode, view = view, knows = find, retry = retry, reset = reset,
	charge = charge, change = change, ends = ends}
