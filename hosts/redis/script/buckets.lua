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
local series = need('series')

local function view(limit, raw, now, _, c)
	local s = series.open(raw, now, c)
	if not s then
		return nil
	end
	local r = s.t % limit.precision
	local oldest = (s.t - r) / limit.precision - limit.parts
	local n, i, before, position, sum = series.find(s, false, oldest)
	local old, edge = 0, 0
	if position == oldest then
		old, before = (sum - before) % 4294967296, sum
	end
	local full = (s.total - before) % 4294967296
	if limit.edge == 'count' then
		edge = old
	elseif old > 0 and limit.edge == 'weighted' then
		edge = need('numbers').share_up(old, limit.precision - r, limit.precision)
	end
	local used = full + edge
	s.n, s.i, s.old, s.full, s.used = n, i, old, full, used
	s.room = used < limit.quota and limit.quota - used or 0
	return s
end

-- How far back a sub-bucket reaches into the window.
local function reach(limit)
	return limit.edge == 'drop' and limit.parts or limit.parts + 1
end

-- The oldest sub-buckets leave the window, or lose their weight, until it fits.
local function retry(limit, s, cost)
	local room, width = limit.quota - cost, limit.precision
	local full, old, position = s.full, s.old, nil
	if limit.edge == 'weighted' and full <= room then
		position = (s.t - s.t % width) / width - limit.parts
	else
		local _, _, before, at, sum = series.find(s, true, room)
		position, old, full = at, (sum - before) % 4294967296, (s.total - sum) % 4294967296
		if limit.edge ~= 'weighted' then
			return (position + reach(limit)) * width - s.t, 0
		end
	end
	local weightless, rest = need('numbers').share(room - full, width, old)
	if weightless >= width then
		weightless, rest = width, 0
	end
	return (position + limit.parts + 1) * width - s.t - weightless, math.floor(rest * 1000000 / old)
end

-- Until the newest sub-bucket that holds anything has left, with its edge.
local function reset(limit, s)
	return s.used > 0 and (s.newest + reach(limit)) * limit.precision - s.t or 0
end

local function charge(limit, s, cost)
	s.full, s.used, s.room = s.full + cost, s.used + cost, s.room - cost
	return series.add(s, (s.t - s.t % limit.precision) / limit.precision, cost)
end

local function refund(limit, s, cost)
	local take = math.min(cost, limit.edge == 'drop' and s.full or s.full + s.old)
	return take > 0 and series.take(s, take)
end

local function ends(limit, s)
	return s.newest and (s.newest + limit.parts + 1) * limit.precision or s.t
end

return {view = view, retry = retry, reset = reset, charge = charge, refund = refund, ends = ends,
	changes = series.changes}
