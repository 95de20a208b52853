-- fixed-window and sliding-window in numbers: two counts on windows aligned to the Unix epoch (src/algo/window.c).
--
-- State: last = instant of the last charge (ms), cur = count of its window, prev = count of the one before. With t the
-- instant (never before the last charge), e = t mod W, and the counts moved on to t's window:
--
--   fixed-window    admits when  cur + c <= Q
--   sliding-window  admits when  c <= Q - cur - ceil(prev * (W - e) / W)
--
-- The usage never grows while nothing arrives, so the first instant that admits c is found in closed form: in this
-- window, if cur + c <= Q, at e' = W - floor((Q - cur - c) * W / prev); else in the next, where cur is what prev was.
--
-- A limit is given as kind ('F' or 'W'), quota and width: no tables, for direct.lua.

-- How a counter stands at `now`: t, e, cur, prev, and what has room.
local function stand(kind, quota, width, now, last, cur, prev)
	local t = now > last and now or last
	local e = t % width
	local start = t - e
	if last < start then
		prev = start - last <= width and cur or 0
		cur = 0
	end
	local used = cur
	if kind == 'F' then
		prev = 0
	elseif prev ~= 0 then
		used = used + need('numbers').share_up(prev, width - e, width)
	end
	return t, e, cur, prev, used < quota and quota - used or 0
end

-- The wait until a denied cost <= Q is admitted.
local function retry(kind, quota, width, e, cur, prev, cost)
	if kind == 'F' then
		return width - e
	end
	local share = need('numbers').share
	if cur + cost <= quota then
		return width - e - share(quota - cur - cost, width, prev)
	end
	return 2 * width - e - share(quota - cost, width, cur)
end

-- By how many nanoseconds that is rounded up: what is shared out is divided on.
local function rounded_up(kind, quota, width, cur, prev, cost)
	if kind == 'F' then
		return 0
	end
	local numbers = need('numbers')
	local spare, count = quota - cur - cost, prev
	if spare < 0 then
		spare, count = quota - cost, cur
	end
	local _, rest = numbers.share(spare, width, count)
	return (numbers.share(rest, 1000000, count))
end

-- The wait until nothing counts: prev until its weight is 0 at the end of this window, cur until the end of the next.
local function reset(kind, width, e, cur, prev)
	if cur ~= 0 then
		return (kind == 'F' and 1 or 2) * width - e
	end
	return prev ~= 0 and width - e or 0
end

return {stand = stand, retry = retry, rounded_up = rounded_up, reset = reset}
