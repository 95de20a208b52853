-- sliding-log: the exact log of admitted cost. A charge at s counts in every window (t - W, t] that holds s, and is
-- gone at exactly s + W; a cost c is admitted when what counts, plus c, is at most Q (src/algo/log.c). Kept as a
-- series of instants; charges of one millisecond share an entry.
local series = need('series')
local log = {fresh = series.fresh, decode = series.decode, encode = series.encode, clone = series.clone,
	changes = series.changes, chunk_field = series.chunk_field}

function log.view(limit, s, now)
	local t = now > s.last and now or s.last
	local edge = t - limit.window
	local n, i, before = series.find(s, function(position)
		return position > edge
	end)
	local used = series.between(before, series.total(s))
	return {t = t, s = s, n = n, i = i, used = used, room = used < limit.quota and limit.quota - used or 0}
end

-- W after the oldest entry with which, and all before it, gone no more than that is left.
function log.retry(limit, v, cost)
	local keep, total = limit.quota - cost, series.total(v.s)
	local n, i = series.find(v.s, function(_, sum)
		return series.between(sum, total) <= keep
	end)
	return (series.at(v.s, n, i)) + limit.window - v.t
end

function log.reset(limit, v)
	return v.used > 0 and series.newest(v.s) + limit.window - v.t or 0
end

function log.charge(_, s, v, cost)
	series.add(s, v.t, cost, v.n, v.i)
	s.last = v.t
end

function log.refund(_, s, v, cost)
	local take = math.min(cost, v.used)
	if take > 0 then
		series.take(s, take)
	end
	return take > 0
end

function log.ends(limit, s)
	local newest = series.newest(s)
	return newest and newest + limit.window or s.last
end

return log
