-- sliding-log: the exact log of admitted cost (src/algo/log.c). A charge at s counts in every window (t - W, t] that
-- holds s, and is gone at exactly s + W; a cost c is admitted when what counts, plus c, is at most Q. Kept as a series
-- of instants; charges of one millisecond share an entry.
local series = need('series')

local function view(limit, raw, now, _, c)
	local s = series.open(raw, now, c)
	if s then
		local before
		s.n, s.i, before = series.find(s, false, s.t - limit.window + 1)
		local used = (s.total - before) % 4294967296
		s.used, s.room = used, used < limit.quota and limit.quota - used or 0
	end
	return s
end

-- W after the oldest entry with which, and all before it, gone no more than that is left.
local function retry(limit, s, cost)
	local _, _, _, position = series.find(s, true, limit.quota - cost)
	return position + limit.window - s.t, 0
end

local function reset(limit, s)
	return s.used > 0 and s.newest + limit.window - s.t or 0
end

local function charge(_, s, cost)
	s.used, s.room = s.used + cost, s.room - cost
	return series.add(s, s.t, cost)
end

local function refund(_, s, cost)
	return s.used > 0 and cost > 0 and series.take(s, math.min(cost, s.used))
end

return {view = view, retry = retry, reset = reset, charge = charge, refund = refund, changes = series.changes}
