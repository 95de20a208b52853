-- fixed-window and sliding-window: two counts on windows aligned to the Unix epoch (src/algo/window.c).
--
-- State: last = instant of the last charge (ms), cur = count of its window, prev = count of the one before. With t the
-- instant (never before the last charge), e = t mod W, and the counts moved on to t's window:
--
--   fixed-window    admits when  cur + c <= Q
--   sliding-window  admits when  c <= Q - cur - ceil(prev * (W - e) / W)
--
-- The usage never grows while nothing arrives, so the first instant that admits c is found in closed form: in this
-- window, if cur + c <= Q, at e' = W - floor((Q - cur - c) * W / prev); else in the next, where cur is what prev was.
-- Kept as 16 bytes.
local numbers = need('numbers')

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
	local width = limit.window
	local t = now > s.last and now or s.last
	local e = t % width
	local start = t - e
	local v = {t = t, e = e, cur = 0, prev = 0}
	if s.last >= start then
		v.cur, v.prev = s.cur, s.prev
	elseif start - s.last <= width then
		v.prev = s.cur
	end
	local used = v.cur
	if limit.kind == 'F' then
		v.prev = 0
	elseif v.prev ~= 0 then
		used = used + numbers.share_up(v.prev, width - e, width)
	end
	v.room = used < limit.quota and limit.quota - used or 0
	return v
end

-- The wait until a denied cost <= Q is admitted.
local function retry(limit, v, cost)
	local width, quota = limit.window, limit.quota
	if limit.kind == 'F' then
		return width - v.e
	end
	if v.cur + cost <= quota then
		return width - v.e - numbers.share(quota - v.cur - cost, width, v.prev)
	end
	return 2 * width - v.e - numbers.share(quota - cost, width, v.cur)
end

-- By how many nanoseconds that is rounded up: what is shared out is divided on.
local function rounded_up(limit, v, cost)
	if limit.kind == 'F' then
		return 0
	end
	local spare, count = limit.quota - v.cur - cost, v.prev
	if spare < 0 then
		spare, count = limit.quota - cost, v.cur
	end
	local _, rest = numbers.share(spare, limit.window, count)
	return (numbers.share(rest, 1000000, count))
end

-- The wait until nothing counts: prev until its weight is 0 at the end of this window, cur until the end of the next.
local function reset(limit, v)
	if v.cur ~= 0 then
		return (limit.kind == 'F' and 1 or 2) * limit.window - v.e
	end
	return v.prev ~= 0 and limit.window - v.e or 0
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
