-- sliding-buckets: the window cut into n = W / P sub-buckets of cost, the newest of which is still filling
-- (src/algo/subs.c). With b = floor(t / P), the sub-buckets b-n+1..b ("full") always count; what becomes of b-n, which
-- the window's edge cuts through ("old"), is the choice of edge:
--
--   count     full + old + c <= Q
--   drop      full + c <= Q
--   weighted  full P + old (P - t mod P) + c P <= Q P
--
-- Kept as a series of sub-buckets, those without cost left out: at most n + 1 entries. The edge is no part of a
-- counter.
local numbers, series = need('numbers'), need('series')

local function view(limit, s, now)
	local t = now > s.last and now or s.last
	local r = t % limit.precision
	local b = (t - r) / limit.precision
	local oldest = b - limit.parts
	local n, i, before, position, sum = series.find(s, false, oldest)
	local v = {t = t, r = r, b = b, s = s, n = n, i = i, old = 0, full = 0, edge = 0, room = 0}
	if position == oldest then
		v.old, before = series.between(before, sum), sum
	end
	v.full = series.between(before, s.total)
	if limit.edge == 'count' then
		v.edge = v.old
	elseif limit.edge == 'weighted' and v.old > 0 then
		v.edge = numbers.share_up(v.old, limit.precision - r, limit.precision)
	end
	local used = v.full + v.edge
	v.room = used < limit.quota and limit.quota - used or 0
	return v
end

-- How far back a sub-bucket reaches into the window.
local function reach(limit)
	return limit.edge == 'drop' and limit.parts or limit.parts + 1
end

-- The sub-bucket whose leaving the window, or whose weight, lets a denied cost <= Q in: its number, its cost and what
-- counts behind it.
local function decisive(limit, v, room)
	if limit.edge == 'weighted' and v.full <= room then
		return v.b - limit.parts, v.old, v.full
	end
	local _, _, before, position, sum = series.find(v.s, true, room)
	return position, series.between(before, sum), series.between(sum, v.s.total)
end

-- The wait until a denied cost <= Q is admitted: the oldest sub-buckets leave the window until it fits.
local function retry(limit, v, cost)
	local room, width = limit.quota - cost, limit.precision
	local position, old, full = decisive(limit, v, room)
	if limit.edge ~= 'weighted' then
		return (position + reach(limit)) * width - v.t
	end
	local weightless = math.min((numbers.share(room - full, width, old)), width)
	return (position + limit.parts) * width - v.t + width - weightless
end

-- By how many nanoseconds that is rounded up.
local function rounded_up(limit, v, cost)
	local room, width = limit.quota - cost, limit.precision
	local _, old, full = decisive(limit, v, room)
	if limit.edge ~= 'weighted' then
		return 0
	end
	local weightless, rest = numbers.share(room - full, width, old)
	return weightless < width and (numbers.share(rest, 1000000, old)) or 0
end

-- The wait until nothing counts: the newest sub-bucket that holds anything has left, with its edge.
local function reset(limit, v)
	if v.full + v.edge == 0 then
		return 0
	end
	return (v.s.newest + reach(limit)) * limit.precision - v.t
end

local function charge(_, s, v, cost)
	series.add(s, v.b, cost, v.n, v.i)
	s.last = v.t
	v.full, v.room = v.full + cost, v.room - cost
end

local function refund(limit, s, v, cost)
	local take = math.min(cost, limit.edge == 'drop' and v.full or v.full + v.old)
	if take > 0 then
		series.take(s, take)
	end
	return take > 0
end

local function ends(limit, s)
	return s.newest and (s.newest + limit.parts + 1) * limit.precision or s.last
end

return {fresh = series.fresh, decode = series.decode, encode = series.encode, clone = series.clone,
	changes = series.changes, chunk_field = series.chunk_field, view = view, retry = retry,
	rounded_up = rounded_up, reset = reset, charge = charge, refund = refund, ends = ends}
