-- distinct: at most Q different members in any window (t - W, t]. A counter is a list of members, by fingerprints of 8
-- bytes with the instant at which each was last charged, the longest unseen first: 16 bytes each, kept as the bytes
-- that Redis holds, of which a step reads a few. Who is asked for stands in v.who (whose.lua).
local numbers = need('numbers')
local BYTES = 16

local function fresh()
	return {last = 0, members = ''}
end

local function decode(raw)
	if #raw < 8 or (#raw - 8) % BYTES ~= 0 then
		return nil
	end
	local last = struct.unpack('<d', raw)
	return numbers.sound(last) and {last = last, members = raw:sub(9)} or nil
end

local function encode(s)
	return struct.pack('<d', s.last) .. s.members
end

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

local function view(limit, s, now)
	local t = math.max(now, s.last)
	local gone = gone_at(limit, s.members, t)
	local count = #s.members / BYTES - gone
	return {t = t, s = s, gone = gone, count = count, room = math.max(0, limit.quota - count)}
end

-- Where a member's entry begins among those that count, or nil.
local function find(v, member)
	local members, at = v.s.members, v.gone * BYTES + 1
	while true do
		at = members:find(member, at, true)
		if not at or at % BYTES == 9 then
			return at and at - 8
		end
		at = at + 1
	end
end

-- The wait until enough have gone that so many more are admitted.
local function retry(limit, v, cost)
	return instant(v.s.members, v.gone + v.count + cost - limit.quota) + limit.window - v.t
end

local function reset(limit, v)
	return v.count > 0 and instant(v.s.members, v.gone + v.count) + limit.window - v.t or 0
end

-- What of the list counts, without the member whose entry begins at `at`, if any.
local function without(v, at)
	local members = v.s.members
	if not at then
		return members:sub(v.gone * BYTES + 1)
	end
	return members:sub(v.gone * BYTES + 1, at - 1) .. members:sub(at + BYTES)
end

local function charge(_, s, v)
	s.members = without(v, v.known) .. struct.pack('<dc8', v.t, v.who)
	s.last, v.gone = v.t, 0
	if not v.known then
		v.count, v.room = v.count + 1, v.room - 1
	end
end

-- Forgets the member that v.who names.
local function refund(_, s, v)
	local at = v.who and find(v, v.who)
	if at then
		s.members = without(v, at)
	end
	return at ~= nil
end

local function ends(limit, s)
	local count = #s.members / BYTES
	return count > 0 and instant(s.members, count) + limit.window or s.last
end

return {fresh = fresh, decode = decode, encode = encode, view = view, knows = find, retry = retry, reset = reset,
	charge = charge, refund = refund, ends = ends}
