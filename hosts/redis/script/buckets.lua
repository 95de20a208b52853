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
local buckets = {fresh = series.fresh, decode = series.decode, encode = series.encode, clone = series.clone,
	changes = series.changes, chunk_field = series.chunk_field}

function buckets.view(limit, s, now)
	local t = now > s.last and now or s.last
	local r = t % limit.precision
	local b = (t - r) / limit.precision
	local oldest = b - limit.parts
	local n, i, before = series.find(s, function(position)
		return position >= oldest
	end)
	local v = {t = t, r = r, b = b, s = s, n = n, i = i, before = before, old = 0, total = series.total(s)}
	local position, sum = series.at(s, n, i)
	v.base = before
	if position == oldest then
		v.old, v.base = series.between(before, sum), sum
	end
	v.full = series.between(v.base, v.total)
	v.edge = limit.edge == 'count' and v.old or 0
	if limit.edge == 'weighted' and v.old > 0 then
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

-- The wait until a denied cost <= Q is admitted: the oldest sub-buckets leave the window until it fits.
function buckets.retry(limit, v, cost)
	local room, width = limit.quota - cost, limit.precision
	local position, old, full = v.b - limit.parts, v.old, v.full
	if limit.edge ~= 'weighted' or full > room then
		local n, i, before = series.find(v.s, function(_, sum)
			return series.between(sum, v.total) <= room
		end)
		local sum
		position, sum = series.at(v.s, n, i)
		old, full = series.between(before, sum), series.between(sum, v.total)
	end
	if limit.edge ~= 'weighted' then
		return (position + reach(limit)) * width - v.t
	end
	local weightless = math.min((numbers.share(room - full, width, old)), width)
	return (position + limit.parts) * width - v.t + width - weightless
end

-- The wait until nothing counts: the newest sub-bucket that holds anything has left, with its edge.
function buckets.reset(limit, v)
	if v.full + v.edge == 0 then
		return 0
	end
	return (series.newest(v.s) + reach(limit)) * limit.precision - v.t
end

function buckets.charge(_, s, v, cost)
	series.add(s, v.b, cost, v.n, v.i)
	s.last = v.t
end

function buckets.refund(limit, s, v, cost)
	local take = math.min(cost, limit.edge == 'drop' and v.full or v.full + v.old)
	if take > 0 then
		series.take(s, take)
	end
	return take > 0
end

function buckets.ends(limit, s)
	local newest = series.newest(s)
	return newest and (newest + limit.parts + 1) * limit.precision or s.last
end

return buckets
