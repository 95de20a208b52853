-- concurrency: at most N in flight. A counter is a list of leases. One that nobody releases ends T after it was
-- acquired or renewed; until then it is held. Whose lease is asked for stands in v.who, and where it is, in v.known.
--
-- Kept as d instant of the last change, and 28 bytes for each lease, the one that ends first first: d end, I4 cost, 16
-- hex digits of its id. A step reads the ends and costs of what is held, and makes a table of none: 1,024 leases
-- (notation.lua) cost 0.3 ms.
local BYTES = 28

-- Leases in another order, as versions before have left them, put in order; nil where they are damaged.
local function in_order(leases)
	local list, sound = {}, need('numbers').sound
	for at = 1, #leases, BYTES do
		local ends, one = struct.unpack('<d', leases, at), leases:sub(at, at + BYTES - 1)
		if not sound(ends) then
			return nil
		end
		list[#list + 1] = {ends = ends, text = one}
	end
	table.sort(list, function(a, b)
		return a.ends < b.ends
	end)
	for i, one in ipairs(list) do
		list[i] = one.text
	end
	return table.concat(list)
end

-- `leases` are all that are kept, `first` is where those begin that are held.
local function view(limit, raw, now)
	local last, leases, held, first, before = 0, '', 0, 1, 0
	if raw then
		if #raw < 8 or (#raw - 8) % BYTES ~= 0 then
			return nil
		end
		last, leases = struct.unpack('<d', raw), raw:sub(9)
	end
	local unpack, t, at = struct.unpack, math.max(now, last), 1
	while at <= #leases do
		local ends, cost = unpack('<dI4', leases, at)
		if ends < before or ends % 1 ~= 0 then
			leases = in_order(leases)
			if not leases then
				return nil
			end
			held, first, before, at = 0, 1, 0, 1
		else
			if ends > t then
				held = held + cost
			else
				first = at + BYTES
			end
			before, at = ends, at + BYTES
		end
	end
	local sound = need('numbers').sound
	return sound(last) and sound(before) and {t = t, last = last, leases = leases, first = first, held = held,
		room = math.max(0, limit.quota - held)} or nil
end

-- Where a lease begins among those that are held, or nil.
local function find(v, id)
	local at = v.first
	while true do
		at = v.leases:find(id, at, true)
		if not at or at % BYTES == 13 then
			return at and at - 12
		end
		at = at + 1
	end
end

-- Until so many have ended that a denied cost fits.
local function retry(limit, v, cost)
	local held, most = v.held, limit.quota - cost
	for at = v.first, #v.leases, BYTES do
		local ends, its = struct.unpack('<dI4', v.leases, at)
		held = held - its
		if held <= most then
			return ends - v.t, 0
		end
	end
end

local function reset(_, v)
	return v.first <= #v.leases and struct.unpack('<d', v.leases, #v.leases - BYTES + 1) - v.t or 0
end

local function write(v, leases, last)
	v.leases, v.last = leases, last
	return struct.pack('<d', last) .. leases
end

-- A lease that is held already stays as it is, and so does the clock.
local function charge(limit, v, cost)
	if v.known then
		return write(v, v.leases, v.last)
	end
	local live = v.leases:sub(v.first) .. struct.pack('<dI4c16', v.t + limit.window, cost, v.who)
	v.first, v.held, v.room = 1, v.held + cost, v.room - cost
	return write(v, live, v.t)
end

-- Ends a lease, or lets it end T from now (`renews`); false where it is not held. What has ended stays where the clock
-- does.
local function change(limit, v, id, renews)
	local at = find(v, id)
	if not at then
		return false
	end
	local others = v.leases:sub(1, at - 1) .. v.leases:sub(at + BYTES)
	if renews then
		local one = struct.pack('<d', v.t + limit.window) .. v.leases:sub(at + 8, at + BYTES - 1)
		return write(v, others .. one, v.t)
	end
	return write(v, others, v.last)
end

return {view = view, find = find, retry = retry, reset = reset, charge = charge, change = change}
