-- distinct: at most Q different members in any window (t - W, t]. Who is asked for stands in v.who, and where its entry
-- is, in v.known.
--
-- Kept as d instant of the last charge, and 16 bytes for each member, the longest unseen first: d instant at which it
-- was last charged, 8 bytes of its fingerprint. A step reads a few of them.
local BYTES = 16

-- The instant of the i-th member, from 1.
local function instant(members, i)
	return (struct.unpack('<d', members, (i - 1) * BYTES + 1))
end

-- How many at the head of the list count no longer at t.
local function gone_at(limit, members, t)
	local low, high = 0, #members / BYTES
	while low < high do
		local middle = math.floor((low + high) / 2)
		if instant(members, middle + 1) + limit.window > t then
			high = middle
		else
			low = middle + 1
		end
	end
	return low
end

local function view(limit, raw, now)
	local last, members = 0, ''
	if raw then
		if #raw < 8 or (#raw - 8) % BYTES ~= 0 then
			return nil
		end
		last, members = struct.unpack('<d', raw), raw:sub(9)
	end
	local t = math.max(now, last)
	local gone = gone_at(limit, members, t)
	local count = #members / BYTES - gone
	return need('numbers').sound(last) and {t = t, last = last, members = members, gone = gone, count = count,
		room = math.max(0, limit.quota - count)} or nil
end

-- Where a member's entry begins among those that count, or nil.
local function find(v, member)
	local at = v.gone * BYTES + 1
	while true do
		at = v.members:find(member, at, true)
		if not at or at % BYTES == 9 then
			return at and at - 8
		end
		at = at + 1
	end
end

-- Until enough have gone that so many more are admitted.
local function retry(limit, v, cost)
	return instant(v.members, v.gone + v.count + cost - limit.quota) + limit.window - v.t, 0
end

local function reset(limit, v)
	return v.count > 0 and instant(v.members, v.gone + v.count) + limit.window - v.t or 0
end

-- The list from the i-th member on, without the one whose entry begins at `at`, if any.
local function without(v, i, at)
	local first = (i - 1) * BYTES + 1
	if not at then
		return v.members:sub(first)
	end
	return v.members:sub(first, at - 1) .. v.members:sub(at + BYTES)
end

local function charge(_, v)
	v.members = without(v, v.gone + 1, v.known) .. struct.pack('<dc8', v.t, v.who)
	v.gone = 0
	if not v.known then
		v.count, v.room = v.count + 1, v.room - 1
	end
	return struct.pack('<d', v.t) .. v.members
end

-- Forgets the member that v.who names. What has gone stays, as the clock does.
local function refund(_, v)
	local at = find(v, v.who)
	return at and struct.pack('<d', v.last) .. without(v, 1, at)
end

return {view = view, find = find, retry = retry, reset = reset, charge = charge, refund = refund}
