-- sliding-log: the exact log of admitted cost. A charge at s counts in every window (t - W, t] that holds s, and is
-- gone at exactly s + W; a cost c is admitted when what counts, plus c, is at most Q (src/algo/log.c). Kept as a
-- series of instants; charges of one millisecond share an entry.
local series = need('series')

local function view(limit, s, now)
	local t = now > s.last and now or s.last
	local n, i, before = series.find(s, false, t - limit.window + 1)
	local used = series.between(before, s.total)
	return {t = t, s = s, n = n, i = i, used = used, room = used < limit.quota and limit.quota - used or 0}
end

-- W after the oldest entry with which, and all before it, gone no more than that is left.
local function retry(limit, v, cost)
	local _, _, _, position = series.find(v.s, true, limit.quota - cost)
	return position + limit.window - v.t
end

local function reset(limit, v)
	return v.used > 0 and v.s.newest + limit.window - v.t or 0
end

local function charge(_, s, v, cost)
	series.add(s, v.t, cost, v.n, v.i)
	s.last = v.t
	v.used, v.room = v.used + cost, v.room - cost
end

local function refund(_, s, v, cost)
	local take = math.min(cost, v.used)
	if take > 0 then
		series.take(s, take)
	end
	return take > 0
end

local function ends(limit, s)
	return s.newest and s.newest + limit.window or s.last
end

return {fresh = series.fresh, decode = series.decode, encode = series.encode, clone = series.clone,
	changes = series.changes, chunk_field = series.chunk_field, view = view, retry = retry, reset = reset,
	charge = charge, refund = refund, ends = ends}
