-- fixed-window and sliding-window: the arithmetic of aligned.lua on a state of a counter, which is kept as 16 bytes.
local numbers, aligned = need('numbers'), need('aligned')

local function fresh()
	return {last = 0, cur = 0, prev = 0}
end

local function decode(raw)
	if #raw ~= 16 then
		return nil
	end
	local last, cur, prev = struct.unpack('<dI4I4', raw)
	return numbers.sound(last) and {last = last, cur = cur, prev = prev} or nil
end

local function encode(s)
	return struct.pack('<dI4I4', s.last, s.cur, s.prev)
end

local function clone(s)
	return {last = s.last, cur = s.cur, prev = s.prev}
end

-- How the counter stands at `now`.
local function view(limit, s, now)
	local t, e, cur, prev, room = aligned.stand(limit.kind, limit.quota, limit.window, now, s.last, s.cur, s.prev)
	return {t = t, e = e, cur = cur, prev = prev, room = room}
end

local function retry(limit, v, cost)
	return aligned.retry(limit.kind, limit.quota, limit.window, v.e, v.cur, v.prev, cost)
end

local function rounded_up(limit, v, cost)
	return aligned.rounded_up(limit.kind, limit.quota, limit.window, v.cur, v.prev, cost)
end

local function reset(limit, v)
	return aligned.reset(limit.kind, limit.window, v.e, v.cur, v.prev)
end

local function charge(_, s, v, cost)
	v.cur, v.room = v.cur + cost, v.room - cost
	s.last, s.cur, s.prev = v.t, v.cur, v.prev
end

-- From the count of t's window first, then from the one before, where they stand in the state, which may be a window
-- earlier than t's; the clock stays.
local function refund(_, s, v, cost)
	local take = math.min(cost, v.cur + v.prev)
	if s.last < v.t - v.e then
		s.cur = s.cur - take
	else
		local from_cur = math.min(take, s.cur)
		s.cur, s.prev = s.cur - from_cur, s.prev - (take - from_cur)
	end
	return take > 0
end

-- The instant from which on the state says what none says.
local function ends(limit, s)
	local start = s.last - s.last % limit.window
	if s.cur ~= 0 then
		return start + (limit.kind == 'F' and 1 or 2) * limit.window
	end
	return s.prev ~= 0 and start + limit.window or s.last
end

return {fresh = fresh, decode = decode, encode = encode, clone = clone, view = view, retry = retry,
	rounded_up = rounded_up, reset = reset, charge = charge, refund = refund, ends = ends}
