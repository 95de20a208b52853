-- concurrency: at most N in flight. A counter is a list of leases. One that nobody releases ends T after it was
-- acquired or renewed; until then it is held. Whose lease is asked for stands in v.who, and where it is, in v.known.
--
-- Kept as d instant of the last change, and 28 bytes for each lease: d end, I4 cost, 16 hex digits of its id.
local BYTES = 28

local function write(last, list)
	local parts = {struct.pack('<d', last)}
	for i, one in ipairs(list) do
		parts[i + 1] = struct.pack('<dI4c16', one.ends, one.cost, one.id)
	end
	return table.concat(parts)
end

-- `live` are the leases that are held, those that end first first; what has ended is left out of what is written next.
local function view(limit, raw, now)
	local sound, last, live, held = need('numbers').sound, 0, {}, 0
	if raw then
		if #raw < 8 or (#raw - 8) % BYTES ~= 0 then
			return nil
		end
		last = struct.unpack('<d', raw)
	end
	local t = math.max(now, last)
	for at = 9, raw and #raw or 0, BYTES do
		local ends, cost, id = struct.unpack('<dI4c16', raw, at)
		if not sound(ends) then
			return nil
		elseif ends > t then
			live[#live + 1] = {ends = ends, cost = cost, id = id}
			held = held + cost
		end
	end
	table.sort(live, function(a, b)
		return a.ends < b.ends or a.ends == b.ends and a.id < b.id
	end)
	return sound(last) and {t = t, last = last, live = live, held = held, room = math.max(0, limit.quota - held)} or nil
end

-- The place of a lease among those that are held, or nil.
local function find(v, id)
	for i, one in ipairs(v.live) do
		if one.id == id then
			return i
		end
	end
end

-- Until so many have ended that a denied cost fits.
local function retry(limit, v, cost)
	local held = v.held
	for _, one in ipairs(v.live) do
		held = held - one.cost
		if held + cost <= limit.quota then
			return one.ends - v.t, 0
		end
	end
end

local function reset(_, v)
	local ends = v.t
	for _, one in ipairs(v.live) do
		ends = math.max(ends, one.ends)
	end
	return ends - v.t
end

local function charge(limit, v, cost)
	if not v.known then
		v.live[#v.live + 1] = {ends = v.t + limit.window, cost = cost, id = v.who}
		v.held, v.room = v.held + cost, v.room - cost
	end
	return write(v.t, v.live)
end

-- Ends a lease, or lets it end T from now (`renews`); false where it is not held.
local function change(limit, v, id, renews)
	local at = find(v, id)
	if at and renews then
		v.live[at].ends, v.last = v.t + limit.window, v.t
	elseif at then
		table.remove(v.live, at)
	end
	return at and write(v.last, v.live)
end

return {view = view, find = find, retry = retry, reset = reset, charge = charge, change = change}
